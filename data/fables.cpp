// fables.cpp - writes the default text: about a megabyte of short fables, the same bytes on every machine.
//
//     fables data/fables.txt      write the text and print how much there is in it
//     fables --check              search every story for a second way to tell it
//
// HOW A STORY IS MADE. The words and the tales below are one grammar: rules, each with a name and a template.
// Telling a story is reading the template "story" from left to right. A template is plain text with a few marks:
//
//     (a|b|)          one of these, each as likely as the others; the last one here is nothing
//     {rule}          one of the alternatives of the rule
//     <v:rule>        the same, and what it says is remembered as v;  <v> says it again
//     [v=word]        set v and say nothing
//     [v:table]       choose a row of a table: its columns become v.column.  [v:table!u] any row but the one of u
//     a_              "a " or "an ", as the next letter demands
//     $               a new line;  ^ a capital follows (most are found by the full stop before them)
//
// A rule called *v is the rule whose name is in v: so a season brings its own weather, and a she her own names.
// The characters are A and B. One is a he and the other a she, so that a pronoun is never in doubt.
//
// HOW MUCH IS IN IT. Every choice is even and made in one place (tell), so the information in the text is known:
// the sum of log2(alternatives), and no model that has not seen the seed can beat that on average. Were there two
// ways to tell one story the sum would be too large, for what counts is the chance of the text, the sum over all
// ways to tell it. So --check runs the grammar as a parser: it walks through all the ways, leaves each at the first
// wrong letter, and adds up the chances of those that arrive. Stories end with an empty line and have none inside,
// so the text falls into its stories in one way only, and what is true of each is true of the whole.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using Text = std::string_view;  // a piece of the grammar, or of what intern() keeps: both outlive all use

constexpr int kStories = 1180;
constexpr std::uint64_t kSeed = 620;  // Aesop is said to have been born about 620 BC

// ------------------------------------------------------------------------------------------------- the words

constexpr Text kWords = R"grammar(
-- Who: a table's first row names its columns. "home" is lived in, "went" is how it travels.
small: #kind/home/went/limbs | mouse/hole/scurried/paws | squirrel/hollow tree/scampered/paws
    | rabbit/burrow/hopped/paws | hedgehog/heap of leaves/shuffled/feet | mole/tunnel/trundled/paws
    | wren/nest/fluttered/wings | sparrow/nest/flew/wings | frog/hollow log/hopped/feet
    | duck/bed of reeds/waddled/wings | finch/nest/flitted/wings | robin/nest/flew/wings
    | hare/form in the grass/bounded/paws | tortoise/patch of clover/plodded/feet
    | dormouse/ball of moss/crept/paws | vole/hole/scuttled/paws | lamb/fold/skipped/feet
    | cricket/crack/hopped/legs | beetle/crack/crawled/legs | toad/ditch/lolloped/feet | lizard/cleft/darted/feet
    | pigeon/loft/flew/wings | quail/tuft of heather/ran/wings | lark/nest/flew/wings | newt/cleft/wriggled/feet
    | donkey/shed/trotted/ears | goat/shed/clambered/hooves | goose/yard/waddled/wings | pony/stable/trotted/ears
    | chicken/coop/ran/wings | snail/clump of ferns/glided/horns | shrew/hole/scurried/paws
    | bee/hive/buzzed/wings | thrush/nest/flew/wings | pipit/nest/flitted/wings | gosling/yard/waddled/wings
    | piglet/sty/trotted/ears | calf/shed/skipped/ears | partridge/tuft of grass/ran/wings
    | warbler/nest/flitted/wings
large: #kind/home/went/limbs | wolf/den/loped/paws | fox/earth/trotted/paws | bear/cave/lumbered/paws
    | lynx/den/padded/paws | hawk/nest/swooped/wings | eagle/eyrie/soared/wings | owl/hollow oak/glided/wings
    | badger/sett/trudged/paws | stork/nest/strode/wings | heron/roost/stalked/wings | cat/loft/prowled/paws
    | stag/thicket/strode/hooves | boar/thicket/charged/tusks | raven/nest/flapped/wings | crow/nest/flapped/wings
    | magpie/nest/flew/wings | weasel/woodpile/slipped/paws | swan/bed of rushes/sailed/wings
    | peacock/orchard/strutted/wings | horse/stable/galloped/hooves | otter/holt/slid/paws
    | marten/hollow pine/sprang/paws | bull/barn/tramped/horns | buzzard/roost/wheeled/wings
    | jackdaw/steeple/flew/wings | polecat/den/sneaked/paws | falcon/nest/swooped/wings | kite/nest/wheeled/wings
    | crane/marsh/strode/wings | mastiff/kennel/bounded/paws | wildcat/den/prowled/paws
    | stoat/stone heap/slipped/paws | ox/barn/plodded/horns
he_name: ^{name}(in|ek|or|an|el|im|old|ick|ert|ric)
she_name: ^{name}(a|ona|ena|inda|elle|ith|una|ola|een|wyn)
name: (b|d|f|g|h|j|k|l|m|n|p|r|s|t|v|w|br|cl|fl|gr|st|th|tr|sw)(a|e|i|o|u)(b|d|l|m|n|r|s|v|ll|nn|mm|rr|zz|dd|lm|rl|
    rm|st|nd|mp|lk|rv)
A: <A.name> | the <A.kind> | the {*A.is} <A.kind>
B: <B.name> | the <B.kind> | the {*B.is} <B.kind>
good: patient|gentle|careful|humble|cheerful|busy|quiet|thoughtful|kindly|modest|sensible|steady|plain|merry|shy|
    hopeful|friendly|sober|nimble|watchful|wise|ragged|grey|brave|calm|clever|diligent|earnest|faithful|frugal|
    good-natured|industrious|loyal|mild|neat|obliging|prudent|simple|soft-spoken|tender|thrifty|trusty|upright|
    sturdy-hearted|warm-hearted|willing|worthy
proud: proud|boastful|vain|haughty|noisy|sleek|handsome|splendid|mighty|fierce|grand|glossy|stern|swift|scornful|
    powerful|blustering|brawny|celebrated|conceited|dashing|elegant|famous|gruff|hot-tempered|imposing|loud|lordly|
    magnificent|overbearing|pompous|strong
fool: greedy|foolish|hasty|restless|stubborn|careless|impatient|idle|headstrong|thoughtless|grasping|bold|lazy|giddy|
    silly|rash|bored|cocksure|discontented|dreamy|fickle|flighty|forgetful|fretful|frivolous|heedless|moody|pert|
    reckless|saucy|selfish|wilful
look: {shape} | {hue}
shape: plump|thin|young|old|little|lame|stout|lean|round|bony|broad|crooked|fat|lanky|long-legged|scruffy|short|slender|
    small|snub-nosed|squinting|tall|tousled|wall-eyed|burly|hunched|dainty|weather-beaten|skinny|chubby|stooping|tiny
hue: black|brown|white|speckled|freckled|dusky|pale|sandy|curly|drab|grizzled|mottled|smoky|tawny|yellow|spotted|
    striped|ginger|silvery|dappled|downy|shaggy|bright-eyed|rosy

-- When: a season comes with its own weather.
season: #name/day/scene/air | spring/spring_day/spring_scene/spring_air | summer/summer_day/summer_scene/summer_air |
    autumn/autumn_day/autumn_scene/autumn_air | winter/winter_day/winter_scene/winter_air
green: #name/day/scene/air | spring/spring_day/spring_scene/spring_air | summer/summer_day/summer_scene/summer_air |
    autumn/autumn_day/autumn_scene/autumn_air
spring_day: mild|fresh|rainy|breezy|bright|showery|soft|blowing|clear|damp|cool|drizzly|fickle|glad|green|sparkling|
    sweet|tender|young|lively
summer_day: hot|drowsy|cloudless|golden|dusty|sultry|blazing|still|long|sunny|airless|blue|breathless|burning|dry|
    glaring|hazy|lazy|scorching|thundery
autumn_day: misty|windy|grey|russet|ripe|foggy|gusty|mellow|wet|chilly|amber|blustery|brown|cloudy|copper|fading|
    late|pale|smoky|stormy
winter_day: frosty|bitter|snowy|icy|dark|bleak|freezing|short|hard|white|biting|black|cruel|dead|dreary|glittering|
    iron|raw|starry|sunless
hour: morning|evening|afternoon|night|noon|dawn|forenoon|twilight|sunrise|dusk|midnight|sunset|day|market day|
    holiday|washing day
spring_scene: {buds} (opened|shone|trembled|nodded) {by_water} | {buds} (swayed|blinked|glowed) under the {thicket} |
    new (grass|clover|ivy|moss) (crept|spread|climbed) over the {roofs} | the {pool} (sparkled|chattered|hurried)
    between the {buds}
spring_air: {rain} (fell|pattered|dripped) on the {roofs} | a_{bird} (sang|piped|called) (in|above|behind) the
    {thicket} | the (sun|wind) (dried|warmed|woke) the {roofs} | {bees} (came back|returned|flew home) to the
    {thicket}
summer_scene: {bees} (drifted|danced|circled|darted) over the {crop} | the {crop} (swayed|stood|rustled|whispered)
    {by_water} | the {crop} smelled of (honey|dust|thunder|the sun) | {bees} (slept|rested|hid) in the {thicket}
summer_air: the (sun|heat) (lay|beat down|leaned) on the {roofs} | not a (leaf|twig|blade) stirred in the {thicket} |
    the {pool} shrank between the {crop} | a_{bird} (dozed|panted|sat) in the {thicket}
autumn_scene: {leaves} (fell|whirled|drifted|floated) over the {roofs} | {leaves} (danced|sailed|raced) {by_water} |
    {berries} (ripened|reddened|dropped) behind the {roofs} | {berries} (lay|rotted|gleamed) under the {thicket}
autumn_air: {fog} (hung|lay|rolled) {by_water} | the wind (shook|bent|rattled) the {thicket} | {rain} (beat|drummed|
    streamed) on the {roofs} | {fog} (crept|came|drifted) over the {roofs}
winter_scene: {snow} (lay|glittered|crackled) on the {roofs} | {snow} (whirled|drifted|blew) through the {thicket} |
    {snow} (covered|hid|buried) the {roofs} | {snow} (bent|whitened|broke) the {thicket}
winter_air: the wind (howled|whistled|moaned) in the {thicket} | {ice} (hung|sparkled|creaked) {by_water} | nothing
    (grew|moved|sang) in the {thicket} | a_{bird} (shivered|starved|hid) in the {thicket}
buds: buds|violets|primroses|catkins|blossoms|daisies|ferns|cowslips|anemones|bluebells|crocuses|daffodils|
    dandelions|new leaves|snowdrops|windflowers
rain: a warm rain|a light rain|a quick shower|a silver drizzle|a sudden shower|the first rain|a fine rain|a noisy
    shower
bird: thrush|blackbird|cuckoo|linnet|nightingale|warbler|blue tit|chaffinch|bullfinch|goldcrest|skylark|siskin|
    starling|swallow|whitethroat|woodlark
bees: bees|gnats|swallows|butterflies|dragonflies|moths|swifts|ladybirds|wasps|bumblebees|martins|mayflies|
    hoverflies|midges|bats|thistle seeds
crop: barley|clover|long grass|poppies|wheat|oats|beans|heather|nettles|flax|buttercups|cornflowers|cow parsley|
    foxgloves|hay|hops|maize|mint|meadowsweet|mustard|rye|sorrel|thistles|vetch
leaves: leaves|yellow leaves|dead leaves|oak leaves|beech leaves|red leaves|clouds|ash leaves|crimson leaves|
    starlings|rooks|maple leaves|old leaves|poplar leaves|rags of cloud|wild geese
berries: berries|haws|rose hips|apples|sloes|crab apples|nuts|acorns|bilberries|chestnuts|elderberries|medlars|
    mushrooms|pears|quinces|walnuts
fog: fog|a thin mist|smoke|a low cloud|a white haze|the smell of leaves|a cold mist|a drizzle|a grey veil|the smell
    of smoke|the smoke of bonfires|twilight
snow: snow|deep snow|hoar frost|new snow|a crust of snow|frost|a blanket of snow|a thick frost|drifted snow|hail|old
    snow|powdery snow|sleet|the first snow|white frost|soft snow
ice: ice|icicles|blue ice|long icicles|rime|black ice|broken ice|crystals|grey ice|needles of ice|sheets of ice|thin
    ice
by_water: (along|beside|below|near|above|around|across|by) the {water}
water: ({dark} |){pool}
pool: brook|mill pond|river|well|ditch|lake|ford|marsh|weir|stream|spring|canal|backwater|bog|duck pond|fen|fish
    pond|mill race|millstream|moat|pool|reservoir|rivulet|torrent|tarn|trough|waterfall|sluice|horse pond|creek|
    inlet|beck
dark: dark|cold|deep|shallow|narrow|winding|rushing|muddy|gleaming|silent|brimming|babbling|black|foaming|lazy|murky|
    pebbly|quick|reedy|ruffled|sleepy|sluggish|swollen|twisting
roofs: ({bare} |){hills}
hills: roofs|hills|furrows|stones|fields|stubble|moor|gardens|barns|walls|haystacks|meadows|hedges|allotments|banks|
    chimneys|cornfields|cottages|dunes|fences|gables|hillocks|marshes|molehills|paths|pastures|ricks|sheds|slopes|
    stiles|vineyards|woodpiles
bare: bare|quiet|lonely|distant|nearest|empty|old|sloping|neighbouring|tumbledown|patched|rolling|silent|sunken|
    weathered|wide
thicket: ({thick} |){hazels}
hazels: hawthorn|hazels|elms|reeds|brambles|willows|pines|ivy|orchard|alders|birches|hedge|beeches|holly|aspens|
    blackthorn|bracken|brushwood|bulrushes|cedars|copse|elders|firs|gorse|honeysuckle|larches|limes|oaks|poplars|
    rowans|rushes|yews
thick: thick|tangled|tall|old|whispering|bent|shady|crooked|dripping|gnarled|leaning|low|slender|swaying|thorny|wild

-- Where and what.
land: a_{wide} {valley}
valley: valley|wood|meadow|marsh|hill|moor|village|farm|forest|orchard|heath|mill|field|lake|garden|river|abbey|
    castle|churchyard|cliff|common|copse|fishing port|glen|inn|market town|park|pasture|quarry|ruin|vineyard|windmill
wide: wide|lonely|green|stony|quiet|windy|sunny|wild|sleepy|broad|deep|famous|misty|rich|steep|forgotten|ancient|
    barren|blue|crooked|desolate|enchanted|far-off|fertile|grassy|haunted|hidden|hilly|nameless|narrow|pleasant|
    prosperous|remote|rocky|sandy|thorny|tidy|tumbledown|walled|wooded
spot: the {great} {oak} | the (edge|corner|gate|back) of the {lane}
fruit: ({ripe} |){figs}
figs: acorns|hazelnuts|cherries|plums|figs|walnuts|chestnuts|blackberries|pears|beans|peas|apples|turnips|raisins|
    carrots|seeds|radishes|raspberries|almonds|crusts|apricots|beechnuts|beets|bilberries|cabbages|cobnuts|currants|
    damsons|dates|gooseberries|lentils|mulberries|mushrooms|olives|onions|parsnips|peaches|pumpkins|quinces|
    strawberries
ripe: ripe|sweet|fat|round|dried|fresh|golden|green|hard|juicy|little|mellow|plump|red|roasted|salted|shiny|small|
    sour|speckled|sticky|tiny|wild|wrinkled
great: old|fallen|crooked|great|split|hollow|lonely|dead|ruined|stone|white|far|empty|round|little|black|blasted|
    burnt|crumbling|double|grey|haunted|leaning|mossy|nearest|red|rotten|second|squat|third|tilted|whispering
oak: oak|elm|ash|pine|willow|beech|walnut tree|birch|mill|tower|bridge|barn|chapel|gate|cottage|well|apple tree|
    archway|chestnut tree|chimney|cross|dovecote|fig tree|hut|linden|milestone|pear tree|poplar|pump|signpost|statue|
    thorn tree
lane: lane|meadow|moor|orchard|wood|village|marsh|garden|churchyard|common|cornfield|drove|forest|graveyard|heath|
    market place|nut grove|park|paddock|parish|pasture|road|valley|vineyard
snug: snug|dry|small|mossy|tidy|warm|narrow|dusty|draughty|cosy|low|shady|sunny|bare|airy|bright|clean|comfortable|
    cool|crooked|dim|humble|neat|new|old|peaceful|plain|quiet|roomy|secret|sheltered|simple
food: {fruit} | barley | oats | honeycomb | wheat | bread | sweet hay | fresh cress
treasure: ({tiny} |){silver} {bell}
silver: silver|golden|cracked|painted|bright|carved|old|amber|bent|blue|brass|bronze|copper|crystal|curious|dented|
    engraved|enamelled|gilded|glass|green|ivory|jade|pearl|polished|red|rusty|scratched|shining|tarnished|tin|wooden
bell: bell|ring|spoon|button|cup|key|comb|whistle|coin|lantern|thimble|mirror|flute|buckle|drum|anchor|bowl|bracelet|
    brooch|candlestick|clasp|clock|compass|crown|dish|goblet|horseshoe|inkwell|jug|locket|medal|needle|pipe|plate|
    sieve|spur|teapot|trumpet|vase|watch
tiny: tiny|heavy|splendid|strange|fine|lovely|little|wonderful|handsome|plain|round|slender
sweet: cheese|pear|plum|honey cake|fig|peach|currant bun|cherry|apple|egg|crust|biscuit|apricot|bread roll|dumpling|
    gingerbread man|ham bone|herring|meat pie|muffin|oatcake|pancake|pie|pudding|quince|raisin loaf|sausage|seed cake|
    smoked eel|sugar plum|tart|waffle
few: two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|twenty|thirty|forty|a_hundred
some: two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|some
few2: one|two|three|four|five|six|seven|eight
neighbour: miller|shepherd|farmer|baker|weaver|cooper|gardener|fisherman|beekeeper|cobbler|ploughman|tinker|carter|
    blacksmith|barber|bell ringer|brewer|butcher|candle maker|carpenter|charcoal burner|clockmaker|dairymaid|
    ferryman|glazier|goatherd|hatter|innkeeper|lacemaker|mason|midwife|organist|potter|saddler|sexton|schoolmaster|
    tailor|thatcher|wheelwright|woodcutter
others: geese|ducks|mice|sparrows|frogs|rabbits|hens|sheep|squirrels|goats|crickets|starlings|pigeons|doves|beetles|
    bees|calves|cows|finches|gulls|hares|hedgehogs|jays|kittens|lambs|moles|piglets|ponies|quails|rats|snails|
    tadpoles|toads|turkeys|voles|wagtails|weasels|wrens|puppies|larks

-- How.
said: said|murmured|remarked|called|sighed|whispered|observed|declared|mumbled|muttered|hummed|piped up|spoke up|
    suggested|ventured
cried: cried|shouted|called|boasted|crowed|declared|bellowed|exclaimed|barked|blustered|burst out|grumbled|jeered|
    laughed|mocked|puffed|scoffed|snapped|snorted|sneered
wailed: wailed|screamed|cried|called|shrieked|howled|sobbed|yelled
gently: gently|softly|quietly|kindly|politely|calmly|slowly|simply|shyly|gravely|after a moment|at last|earnestly|in
    a low voice|mildly|modestly|patiently|sadly|seriously|sweetly|thoughtfully|timidly|warmly|with a bow|with a nod|
    with a sigh|with a smile|with respect
loudly: loudly|scornfully|proudly|rudely|sharply|merrily|impatiently|crossly|grandly|coldly|angrily|at once|boldly|
    briskly|carelessly|cheerfully|for all to hear|gaily|gruffly|haughtily|hotly|in a shrill voice|lightly|stubbornly|
    with a grin|with a shrug|with a sneer|with a toss of the head
hard: all (day|morning|afternoon) | until (dusk|noon|midnight|sunset|nightfall|teatime) | without (a rest|a word|a
    pause|help) | from dawn to dusk | for (an hour|a while|{few} (hours|minutes)) | again and again | over and over |
    as never before
soon: soon | before long | by and by | at last | presently | in the end | after a while | then | a little later |
    after {few} minutes | at length | in due course | when the sun stood high | when the clock struck {few2} | when
    the moon rose | when the shadows grew long
sorry: sorry|ashamed|sad|wretched|sore|miserable|humbled|silent|crestfallen|downcast|embarrassed|footsore|gloomy|
    heavy-hearted|meek|muddy|sheepish|shaken|sober|speechless|sulky|thoughtful|tired|weary
hmm: well|ah|now|friend|neighbour|listen|look|come|why|oh|see|believe me|dear me|goodness|forgive me|good day|hear
    me|hello there|hey|ho|I say|indeed|my dear|tell me|to be sure|upon my word|mark my words
days: (a|one) (day|night|week|month|fortnight) later | the next (day|night|week|month|morning|evening) | {some}
    (days|nights|weeks|months|hours) (later|after that)
)grammar";

// ------------------------------------------------------------------------------------------------- the tales

constexpr Text kTales = R"grammar(
story: {cast}{plot}$$
cast: [A:he][B:she]|[A:she][B:he]
he: #he/him/his/hers/names|he/him/his/his/he_name
she: #he/him/his/hers/names|she/her/her/hers/she_name
plot: {wit} | {greed} | {contest} | {mercy} | {flattery} | {liar} | {winter} | {quarrel} | {sharing} | {warning} |
    {finder} | {planting} | {envy} | {bridge}

-- A title names both characters, so they are cast as it is written: the weak and the strong, or two equals.
title: the [A:small]<A.kind> and the [B:large]<B.kind>
peers: the [A:small]<A.kind> and the [B:small!A]<B.kind>

-- How A comes into the story. What A is like, the plot has said in A.is.
intro:
    in a_{snug} <A.home> (near|beside|below|behind|beyond|not far from) {land} (lived|dwelt) {whoA}.
    | {when} {whoA2} (set out from|left|looked out of|sat before|was sweeping|was mending|came out of) <A.his> {snug}
      <A.home> (near|beside|below|behind) {land}.
    | there was once {whoA}, whose <A.home>, (near|beside|below|behind) {land}, was {snug} and full of {food}.
    | {whoA2} had a_{snug} <A.home> (near|beside|below|behind) {land}.
    | {when} {whoA2} <A.went> (past|towards|away from|as far as) {land} (to look for|to fetch|dreaming of|to sell|
      carrying) {food}.
whoA: a_{likeA} <A.kind> {called} <A.name:*A.names>{surname}( in a_{colour} {coat}|)
whoA2: {whoA} | <A.name:*A.names>{surname}, a_{likeA} <A.kind>( in a_{colour} {coat}|),
likeA: ({look}, |{shape}, {hue}, |){*A.is}
when: one {*S.day} {hour} in <S.name> | on a_{*S.day} <S.name> {hour} | one <S.name> {hour}, (while|when) {*S.scene},
scene: {weather}( {aside}|)
weather: it was a_{*S.day} <S.name>, and {*S.scene}. | it was a_{*S.day}, {*S.day} <S.name>: {*S.air}, and
    {*S.scene}. | {*S.scene}, (and|while) {*S.air}. | (up|down|far) in {land}, {*S.air}.
aside:
    a_{shape} {neighbour} went by with {bag}.
    | {few} {look} {others} were {playing} {by_water}.
    | somewhere {behind} the {roofs} a_{bell} was heard, and {few} {others} (answered|fell silent|ran home|looked up|
      woke|took no notice|flew up).
    | a_{colour} {coat} hung on a_{hook} {behind} the {roofs}.
    | from {land} came the smell of {food} and {food}.
behind: behind|beyond|among|beside|above|below|near|in front of
hook: hook|nail|branch|fence|line|gate|thorn|post|rake|wheel|bush|rope
playing: playing | quarrelling | sleeping | dancing | bathing | whispering | singing | waiting | looking for {figs} |
    sharing {figs} | chattering | counting {figs} | chasing a_{colour} {coat} | telling tales | grumbling | feasting
    on {figs}

-- How B comes in, and how both speak.
whoB: a_({look}, |{shape}, {hue}, |){*B.is} <B.kind> {called} <B.name:*B.names>{surname}( with {bag}| carrying
    {bag}| in a_{colour} {coat}|)
called: called|named|known as|by the name of
surname: ( ^{moss}{foot}|)
moss: moss|thorn|oak|black|white|brook|clover|corn|dew|elder|fern|frost|green|hazel|honey|long|marsh|merry|mill|mud|
    nettle|nut|quick|rain|reed|silver|sorrel|stone|straw|wind|winter|wood
foot: foot|well|field|bottom|brook|cap|ear|wick|ley|low|marrow|nose|path|pocket|ridge|root|shaw|shoe|song|spoon|tail|
    toe|top|ton|tooth|walker|warden|ward|water|worth|whisker|wright
colour: red|green|blue|yellow|brown|grey|black|white|purple|scarlet|crimson|orange|pink|violet|striped|spotted|
    checked|patched|faded|velvet|woollen|silk|linen|leather
coat: waistcoat|bonnet|cloak|scarf|shawl|hat|jacket|apron|cap|cape|hood|collar|cravat|jerkin|kerchief|smock|beret|
    top hat|tunic|neckerchief|muffler|nightcap|ruff|sash
bag:
    a_{tiny} {silver} {bell}
    | a_({tiny} |)(basket|bundle|sack|bag|cartload|pocketful|string) of {food}
    | {few} {shape} (cousins|sisters|brothers|children|friends)
    | a_{silver} {bell} and {few} {figs}
meet:
    (at|near|by) {spot} <A.he> (met|saw|found|came upon|ran into|noticed|greeted|bumped into) {whoB}.
    | {days} <A.he> met {whoB} (at|near|by) {spot}.
    | there came {whoB}, who <B.went> (out of|from|away from) <B.his> {snug} <B.home>.
    | (nearby|not far off|close by|next door|a stone's throw away), in a_{snug} <B.home>, lived {whoB}.
sayA: {said} {A}( {gently}|)
sayB: {said} {B}( {gently}|)
cryA: {cried} {A}( {loudly}|)
cryB: {cried} {B}( {loudly}|)
homeA: {A} <A.went> (home|home to <A.his> {snug} <A.home>|back to <A.his> {snug} <A.home>)
homeB: {B} <B.went> (home|home to <B.his> {snug} <B.home>|back to <B.his> {snug} <B.home>)
moral: $Moral:^

-- 1. Wit does what force could not.
wit: {title}$
    [A.is=good][B.is=proud][S:season][N:need]{intro} {scene} {A} was <N.state>. {meet} (before them|there) (was|
    stood) <N.goal>, but <N.snag>.$
    {wit_force}$
    {wit_think} {soon}, with {wit_tool}, <A.he> <N.deed>. (then|so) {A}
    <N.end>( gladly| happily| merrily| thankfully| at last|), {wit_end}.{moral} {wit_moral}.
need:
    #state/goal/snag/deed/end
    | (very |)thirsty/a_(tall|clay|stone|blue) jar with a little water at the bottom/the neck was (too narrow|
      long)/dropped in (pebbles|beads|acorns|cherry stones) until the water rose to the (brim|rim)/drank
    | (very |)hungry/a_(heap|store|sack) of {food} under a_(heavy|flat|mossy) stone/the stone (would not move|was
      stuck)/pushed a_(pole|branch|rake) under the stone until it (rolled|tipped) away/ate
    | (very |)cold/a_(warm|dry) (barn|stable) with its door shut/the latch was (too high|out of reach)/built a stair
      of (logs|bricks|turnips|peat) and climbed up to lift the latch/went in and slept
    | (very |)tired/a_(soft|dry) bed of {crop} across the {water}/there was no (bridge|boat|ford)/(caught|stopped) a
      floating (log|plank|door|barrel) and rode over on it/lay down and slept
    | (very |)hungry/a basket of {food} hanging from a_(beam|branch)/the basket was (too high|out of reach)/followed
      the rope to its (hook|peg|nail) and undid the knot, and down came the basket/ate
wit_tool: a little thought | great patience | a steady mind | no noise at all | {few} small steps | hardly any
    strength
wit_force:
    {B} (pushed|pulled|stamped|struggled|raged|kicked|heaved|hammered|strained|shoved|stormed|tugged|wrestled|toiled|
      roared|sweated) {hard}, but (all <B.he> got|<B.his> reward) was {bruise}. "{hmm}, (nobody|no one here|not even
      a giant|no creature|not even a team of oxen|nobody alive|no king on earth|neither you nor I) can do (it|this|
      such a thing)," {cryB}.
    | "(stand back|make way|watch me|leave it to me|look here|out of my way|move over|step aside), {small_one},
      (this|it) (needs|calls for|wants) (strength|force|muscle|weight|power|a hero)," {cryB}. <B.he> (pushed|pulled|
      stamped|struggled|raged|kicked|heaved|hammered|strained|shoved|stormed|tugged|wrestled|toiled|roared|sweated)
      {hard}, but (all <B.he> got|<B.his> reward) was {bruise}.
bruise:
    a_(bruise|headache|sore neck|scratch|cramp|stiff back|stitch|splinter|black eye|bad temper)
    | sore <B.limbs>
    | {few} bruises
small_one: little one|small fry|weakling|crumb|pipsqueak|shrimp|little <A.kind>
wit_think:
    "{hmm}, (let me think|there is another way|let me look at it again|allow me to try|one moment|there may be a
      trick to it|let us be clever|haste will not help us|I have an idea)," {sayA}.
    | {A} said (nothing|little) and (looked|thought|waited|sat|walked about|counted the clouds|hummed a tune|paced up
      and down) (for a while|a little longer|until <A.he> saw a way).
wit_end:
    and {B} (looked on|went away|hung <B.his> head|stared|stood there|sat down|walked off|watched) in (silence|
      wonder|shame|surprise|envy|confusion|amazement|disbelief)
    | and (asked|invited|begged|told|allowed) {B} to (share it|come too|do the same)
    | while {B} (grumbled|sulked|marvelled|yawned|blushed|stared|shook <B.his> head|said nothing more)
wit_moral:
    (wit|thought|patience|cunning|a clear head|a good idea|calm|reason) (wins|does|gains|opens|brings|reaches|finds|
      manages) what (force|strength|anger|noise|muscle|rage|a loud voice|fury) (cannot|never will)
    | think (first|twice), (push|pull|shout) (last|later)

-- 2. Who must have more loses all.
greed: {title}$
    [A.is=fool][B.is=good][S:season]{intro} {scene} {A} had <F:fruit>, a whole <C:container> of them, (but|yet)
    <A.he> (wanted|longed for|dreamed of|hungered for|wished for|thought of nothing but|sighed for|hoped for) more.
    {meet}$
    "{hmm}, {enough}," {sayB}. "{more}," {cryA}, and (ran|hurried|turned back|rushed|crept back|raced|sped|went off)
    to (fetch|gather|find|pick up|collect|look for|shake down|beg for) {few} more.$
    {soon} the <C> was so (full|heavy|overloaded|crowded) that {split}, and (all|most|nearly all|half|more than half)
    of the <F> (rolled|fell|tumbled|dropped|splashed|bounced|vanished|sank|slid) into the {water}. {A} (wept|howled|
    groaned|searched|wailed|waded|fished|moaned|dived|lamented) {hard}, but (saved|found|rescued|fished out|brought
    back) only {few}. {homeA}, (hungry|poorer|wiser|wet|cold|older|lighter|hoarse) and {sorry}.{moral} {greed_moral}.
container: basket|sack|barrow|bundle|bucket|cartload|apron|barrel|bag|cart|crate|hamper|hatful|chest|tub|wagon
enough: (that|it) is enough for (a week|a month|one winter|{few} days) | you have (enough|plenty|more than you
    need) | be content with what you (have|can carry) | do not (carry|take) more than you can (hold|use)
more: (one|a few|ten|just a few) more will do no harm | (enough|plenty) is for (beggars|fools|saints) | I (saw|found|
    want) them first, and I will have them all | (nobody|no one) ever had too much
split: (it split|it burst|the bottom fell out|it tipped over) (on|beside|near) the (bridge|bank|stile|bend)
greed_moral:
    who (wants|grasps at|reaches for|hungers after) (all|everything|too much|the moon) (loses|drops|spills|forfeits)
      what (was safe|was in hand|could be kept|is needed|is at hand)
    | (enough|a little) (in the hand|kept|well held) is better than (plenty|much|a feast) (lost|spilled|drowned)

-- 3. The swift one stops, the steady one arrives.
contest: {title}$
    [A.is=good][B.is=proud][S:season]{intro} {meet} {scene}$
    "{boast}," {cryB}. "{hmm}, (let us|we could|suppose we|we might) (race|run) to <P:spot>," {sayA}, and the
    {others} (laughed|giggled|came to watch|laid bets|cheered|clapped|gathered round|shook their heads|winked|
    whistled).$
    {B} <B.went> off (like the wind|like an arrow|at once|like lightning|like a gale|in a flash|in great style|
    without looking back|in a cloud of dust), but (halfway|near the {water}) <B.he> {dawdle}. {A} <A.went> (on and
    on|on|steadily on|quietly on|calmly on|bravely on|evenly on), {dogged}. {soon} {B} (woke|remembered|looked up|
    started|heard the clock|took fright|came to <B.his> senses) and (rushed|hurried|dashed|hastened|tore|raced|
    stormed) on, but (at|by) <P> (sat|stood|waited|rested|lay) {A}, (resting|smiling|out of breath|humming|eating
    {food}|yawning|knitting|fast asleep|drinking tea|mending a_{coat}|talking to the {others}|wiping <A.his>
    brow).{moral} {contest_moral}.
boast:
    (nobody|no one) in (the valley|the parish|the whole land|this wood) is (faster|quicker|swifter) than I am
    | I could (beat|outrun) (the wind|the rain|a storm|all the {others}) (asleep|with my eyes shut|backwards)
    | you are the (slowest|dullest|heaviest) (creature|<A.kind>) in (the valley|the parish|the whole land)
dawdle: lay down (to sleep|to doze|for a nap) {under} | stopped to (eat|pick|steal) some {food} | stopped to (tease|
    lecture|scold) the {others} | admired <B.his> (face|<B.limbs>) in the {water}
under: under the {thicket} | in the {crop} | behind the {roofs}
dogged: (not looking|looking neither) (left or right|back or aside) | one step after another | with (dust|mud|dew) on
    <A.his> <A.limbs> | counting <A.his> steps | saying (little|nothing)
contest_moral:
    (slow|small|steady|quiet) (steps|feet) (win|finish|end) what (quick|loud|proud) (ones|words) (begin|start)
    | (talent|speed|a good start) is (nothing|little) (without|beside) (effort|patience|perseverance)

-- 4. A kindness comes back.
mercy: {title}$
    [A.is=good][B.is=proud][S:season][T:trap][D:danger]{intro} {scene} (by|near|at) {spot} <A.he> (heard|noticed|saw|
    found|discovered|came upon) {whoB}, <T.caught>.$
    "{hmm}, (help|free|save) me, and I (will|shall) (repay|remember|return|reward|not forget) it," {sayB}. "{doubt},"
    {sayA}, (but|and yet) <A.he> (stayed|set to work|worked {hard}|came nearer|rolled up <A.his> sleeves|set about
    it|took pity on <B.him>) and <T.freed>. {homeB}.$
    {days} <D.peril>. {A} (called|cried|shouted) (for help|out|again and again), and {soon} {B} {arrive} and
    <D.rescue>. "(now|so) we are (even|friends|quits|both free)," {sayB}.{moral} {mercy_moral}.
trap:
    #caught/freed
    | in a_(hunter's|fisherman's|strong|tangled) net/(untied|loosened|picked apart) {few} knots
    | with a_(thorn|splinter|nail|burr) in <B.his> (side|foot|back)/drew it out
    | (at the bottom of|deep in) a_(pit|dry well|quarry)/(pushed|rolled|lowered) down a_(branch|ladder|rope|beam) to
      climb by
    | stuck (fast |)in the (mud|clay|bog)/laid down (reeds|planks|bark|straw) to tread on
    | (under|beneath) a fallen (tree|branch|wall|gate)/dug the earth away (below|beside) <B.him>
danger:
    #peril/rescue
    | the {water} rose and carried {A} (away|off)/brought <A.him> to (dry land|the bank|shore)
    | a_(savage|strange|hungry|stray) (dog|hound|cur) chased {A} (over|across) the {roofs}/drove it away
    | {A} lost <A.his> way in the (fog|dark|storm)/led <A.him> home
    | {A} fell ill (with|of) a_(fever|cough|chill)/brought <A.him> {food} (every day|until <A.he> was well)
    | thieves (came for|took) all the {food} that {A} had/(frightened|chased) them off
doubt:
    (you may forget|promises are cheap|the strong forget) (by tomorrow|once you are free|soon enough)
    | nobody should be left like (this|that)
    | (the great|the strong|lords) (rarely|seldom|never) (remember|thank|know) the (small|weak|poor)
arrive: (came|ran|was there) | heard <A.him> | <B.went> (out of|from) the {thicket}
mercy_moral:
    (a kindness|a good turn|a kind deed|help) is never (lost|wasted|too small|forgotten)
    | (help|spare|befriend) (others|the strong|your neighbour) and (help|friendship) will (find|follow|reach) you

-- 5. A flatterer is after something. Some fall for it and some do not.
flattery: {title}$
    [A.is=fool][B.is=sly][S:season]{intro} {scene} <A.he> had (found|bought|been given|won|inherited|earned|
    saved up for) a_<G:sweet> and was about to eat it. {meet}$
    "{hmm}, what (fine|lovely|elegant|wonderful|noble|charming|exquisite|handsome|rare|splendid) {feature} you have,"
    {sayB}. "(they say|I hear|the {others} say|everybody says|my aunt says|it is said in the {valley}|a_{bird} told
    me) that you (sing|dance|whistle|yodel|hum|play the flute|recite verses) better than any {bird}. (show|do show|
    oh, show|please show) me( a little| just once| before I go|)!"^ {flattered}.
flattered:
    {A} (forgot|dropped|let go of|put down|laid aside|let fall) the <G> and {perform}. {B} (snatched|caught|
      swallowed|seized|grabbed|devoured|pocketed|pounced on) it and <B.went> off (laughing|at once|into the
      {thicket}|across the {roofs}|past {spot}|licking <B.his> lips). "(thank you|bravo|well sung), but {lesson},"
      <B.he> (said|called back|added){moral_fool}
    | {A} {ate} the <G> first, to the last crumb, and then {perform}. "(oh|alas|well), (that was|there goes) my
      (dinner|supper|breakfast)," {said} {B}, and <B.went> off (hungry|at once|into the {thicket}){moral_wary}
perform: (sang|danced|whistled|bowed) (with closed eyes|to all sides|like a_{bird}|{hard})
ate: (smiled and |thanked <B.him> and |bowed and |)(ate|finished|swallowed)
lesson: (praise|sweet talk) must be paid for | (never|do not) trust a hungry (friend|guest) | your (sense|wit) is not
    so fine
moral_fool: .{moral} (flattery|praise|a sweet word) is (dear|costly|a net|bait) to (those|all) who (believe|love|
    swallow) it
moral_wary: .{moral} (hear|enjoy|take) praise (gladly|calmly|with thanks), but (hold on to|keep|guard) your (dinner|
    purse|supper|bread)
sly: sly|smooth|cunning|hungry|smiling|artful|crafty|polite|oily|flattering|charming|deceitful|shifty|slippery|
    soft-voiced|wily
feature: eyes|<A.limbs>|manners|colours|curls|eyebrows|feelings|spirits|taste|thoughts

-- 6. The liar is not believed.
liar: {title}$
    [A.is=fool][B.is=good][S:season]{intro} {scene} (life was dull|<A.he> was bored|nothing ever happened), so <A.he>
    (cried|shouted|screamed|yelled|bawled|called), "(help|quick|hurry), <E:alarm>!"^ the {others} came (running|at
    once|with {tools}), and {A} laughed (at them|until <A.he> cried|{hard}|aloud|behind <A.his> hand|till <A.his>
    sides ached).$
    {meet} "{hmm}, {warn_liar}," {sayB}. "{shrug}," {cryA}, and {days} <A.he> played the (same trick|trick again).$
    then, one {*S.day} {hour}, it (came|was suddenly|proved) true. "(help|quick|hurry), <E>!"^ {A} (wailed|sobbed|
    cried|begged|screamed|implored|shouted|howled). (nobody|no one|not one of them) (came|stirred|believed <A.him>|
    listened|looked up|left the house|opened a window). <A.his> {snug} <A.home> (was|and all <A.his> {food} were)
    (lost|gone|ruined|spoiled|destroyed|swept away) by (dawn|noon|nightfall|sunset|morning|evening).{moral}
    {liar_moral}.
alarm: the {water} is rising | the {water} is flooding | the (barn|mill|hayrick|chapel|granary) is on fire | thieves
    are in the {store} | a_(wolf|bear|mad dog|lion) is in the {store}
store: orchard|barn|garden|dovecote|cellar|larder|yard
tools: buckets|sticks|ropes|ladders|rakes|spades|pitchforks|hammers|lanterns|nets|oars|pans|pokers|sacks|shovels|wet
    blankets
warn_liar:
    (one day|some day|soon) (it will be true|you will need them|they will not come)
    | (a lie|a false alarm|such a joke) is (soon|easily) told and (long|never) (remembered|forgotten)
shrug:
    (nonsense|rubbish|fiddlesticks), it is (only|just) (a joke|a game|in fun)
    | you are too (serious|solemn|easily cross)
liar_moral:
    (a liar|who lies|a false tongue|a joker) is not believed (in need|when it matters|on the day of need|when the
      roof burns|in the end)
    | (lie|cry wolf) (once|twice|for fun), and the (truth|very truth|plain truth) will (find|get|meet) no (ears|
      hearing|friends|help)

-- 7. Work in summer, eat in winter; the ending depends on the heart of the worker.
winter: {peers}$
    [A.is=good][B.is=fool][S:green]{intro} {scene} {hard} <A.he> (gathered|carried|stored|dried|picked|collected|
    packed|counted|stacked) <F:fruit>. {meet}$
    "{hmm}, {play}," {cryB}. "{later_A}," {sayA}, and (went on|turned back to) <A.his> work. {B} (danced|sang|slept|
    swam|played|dozed|skipped|told tales|lay about|blew bubbles|picked flowers) {under} {hard}.$
    [S:cold]then came winter: {*S.scene}, and {*S.air}. {B} had (nothing|not a crumb|only {few} seeds) to eat, and
    <B.went> to the {snug} <A.home> of {A}. "{beg}," {asked} {B}( {gently}|). {winter_end}.
cold: #name/day/scene/air | winter/winter_day/winter_scene/winter_air
play:
    (come and play|leave that|come and dance), the (sun|day|year) is (warm|young|long)
    | (winter|the cold|the snow) is far (away|off)
    | why (toil|sweat|fret) on such a_{*S.day} {hour}
later_A: I shall (play|rest|dance) when my (store|larder|cellar) is full | (winter|the snow|the cold) comes (sooner|
    faster) than we think | (help me|work beside me), and we shall both (eat|have enough)
beg:
    (please|dear neighbour|have pity), (lend|give|spare) me {few} of your <F>
    | I am (hungry|cold|starving), (dear|good) {A}
winter_end:
    "(come in|sit down|eat), but (next year|in spring|from now on) you will (work|dig|gather|sweep|plough|sow|cook)
      (with|beside) me," {sayA}. (and so|and indeed) <B.he> did.{moral} (mercy|kindness) (feeds|warms|shelters)
      (today|the idle), but (only |)work (feeds|fills) (tomorrow|the barn)
    | "(what did you do|where were you) (all summer|when it was warm)?" {sayA}, and (shut|closed|barred) the
      door.{moral} (who|whoever|he who|she who) (sings|dances|sleeps|plays) (in the sun|at seed time|all summer)
      (may|must) (fast|shiver|go hungry) in the (snow|frost)

-- 8. While two quarrel, a third takes the prize.
quarrel: {peers}$
    [A.is=fool][B.is=fool][S:season]{intro} {meet} {scene} (together|side by side|at the same moment) they (saw|
    found|spied) a_<T:treasure> (near|by|at|close to) {spot}.$
    "{hmm}, {mine}," {cryA}. "{mine2}," {cryB}. they (argued|shouted|pulled|wrangled|fought|quarrelled|tugged|
    squabbled|scolded|stamped|raged) {hard}, (until|and) {tatter}.$
    [C:large](meanwhile|just then|at that moment) a_({look}, |){sly} <C.kind> <C.went> by, (picked up|took|pocketed|
    snapped up|lifted|carried off) the <T> and (was gone|vanished|went on {whistling}|hurried away|was seen no more|
    thanked them both). "(we should|we could|we ought to) have (shared|divided|halved) it," {sayB}. "(too late|yes|it
    is gone)," {sayA}.{moral} {quarrel_moral}.
mine: I saw it first | it is mine by right | my (eyes|feet) were quicker | it (shone|called) to me | (finders|first
    come) have first claim
mine2: I touched it first | you (lie|dream|never saw it) | my (grandmother|grandfather|aunt|uncle) lost it here |
    give it (up|to me) | (nonsense|never|not at all), it is mine
tatter: both were (hoarse|weary|black and blue) | the {others} came to (watch|listen|laugh) | (dust|mud|fur) flew
    (about|everywhere)
whistling: whistling|humming|smiling|without a word
quarrel_moral:
    when two (quarrel|fight|wrangle), a third (dines|wins|profits|laughs)
    | (share|divide|halve) (a find|the prize|good luck) (quickly|in peace|gladly), or (lose|forfeit) it (all|whole)

-- 9. What is shared grows.
sharing: {title}$
    [A.is=good][B.is=poor][S:season]{intro} {scene} all <A.he> had was {few} <F:fruit>. {meet} <B.he> had (eaten
    nothing|walked|begged|slept in ditches|wandered|travelled|lived on {figs}) for {few} (days|nights).$
    "{hmm}, (could|would|can) you (spare|lend|give) me (some|half|a few|one)?" {asked} {B}( {gently}|). {share}, and
    they (ate|sat|supped) (together|side by side) {under}.$
    [B.is=good]{days} {B} <B.went> to the <A.home> of {A} with {gift}. "{thanks}," {sayB}, and {A} (was never|did not
    go) (hungry|without) (again|that year).{moral} {sharing_moral}.
poor: hungry|ragged|weary|homeless|starving|wandering|poor|footsore|shivering|penniless|barefoot|feeble|forlorn|lost|
    sickly|unlucky
share:
    "(take|eat|here are) half," {sayA}
    | {A} (looked at|counted) the <F> (twice|and sighed|and smiled|and hesitated|again|for a while) and gave <B.him>
      (half|the larger half|all but two)
    | "(little|not much) for two, but (worse|lonely) for one," {sayA}
gift: a_(basket|sack|barrow|bag) of {food} | news of a_(field|orchard|barn) full of {food} | a_{treasure} to (sell|
    trade) for {food} | {few} friends, each carrying {food}
thanks: you (gave|shared) when you had (little|nothing) | (half|a bite|a crumb) in (hunger|need) is (worth|more than)
    a feast | (now|today) it is my turn
sharing_moral:
    (bread|a meal|a crumb|little) (shared|halved|given) is (bread|joy|luck|plenty) (doubled|sown|returned)
    | (give|share) (gladly|early|what you have), and you will (not want|have enough|have friends)

-- 10. A warning is cheaper than a rescue.
warning: {title}$
    [A.is=fool][B.is=good][S:season][P:peril]{intro} {scene} <A.he> (wished|wanted|meant|longed|hoped|was determined)
    to <P.deed>, (for|because) (over there|there|beyond it|not far off) <A.he> could (see|smell) {food}. {meet}$
    "{hmm}, {beware}: <P.why>," {sayB}. "{dare}," {cryA}, and (went|set off|started) (at once|anyway|with a laugh).$
    <A.he> was (halfway|nearly there|hardly started|almost over|whistling a tune|in the very middle) when <P.fall>.
    "(help|save me|I am lost|come back|quick)!" {wailed} {A}. {B} (held out|threw|fetched) a_(rope|branch|pole|
    ladder|vine) and (pulled|drew|dragged) <A.him> out, (wet|bruised|shaking|pale|dripping|limping|trembling|
    coughing) and {sorry}.{moral} {warning_moral}.
peril:
    #deed/why/fall
    | cross the {water} (by|on) the old (bridge|plank|log)/(it|the wood) is (rotten|cracked|worn)/it (broke|snapped|
      gave way) (in two|under <A.him>)
    | (cross|go over) the (bog|mire|swamp)/the (moss|ground) is (soft|deep|false)/<A.he> (sank|went in) up to the
      (neck|chin)
    | climb down into the (quarry|pit|well)/the (sides|stones|steps) are (loose|wet|slippery)/the (stones|steps)
      (slid|slipped) away
    | (walk|dance) along the (ruined|old|high) wall/it is (loose|crumbling|older than I am)/the (top|wall) (fell|
      tumbled) down
    | swim (over|across) the {water}/the (current|flood) is (strong|swift|cold)/a_(wave|whirlpool|cramp) (seized|
      caught) <A.him>
beware: (take care|beware|stay here|do not go|wait|think again)
dare: (caution|fear|care) is for (the old|cowards|snails) | I (know|fear) (better|nothing|no such thing) | I have
    done (harder|worse) (things|than that) (before|asleep)
warning_moral:
    (a warning|good advice|a word in time|a question) is (lighter|cheaper|softer|better) than (a rescue|a bruise|a
      fall|regret|a rope)
    | (hear|heed|ask|trust) (those|neighbours|friends|old folk) who (know|have tried|have measured) the (way|road|
      water|ground)

-- 11. An honest finder.
finder: {title}$
    [A.is=good][B.is=sly][S:season]{intro} {scene} (near|by|at) {spot} <A.he> found a_<T:treasure> in the (grass|
    dust|mud|leaves|sand|ashes|clover|ditch|gravel|moss|nettles|straw|bushes). {meet}$
    "{hmm}, that is mine," {said} {B} at once. "(then|if so), (what|tell me what) is (cut|scratched|written) on the
    back?" (asked|inquired|wondered|demanded) {A}( {gently}|). "(a_{mark}|{few} {mark}s)," {sayB}. (but|yet) on the
    back was only the (name|mark|sign|seal) of the <N:neighbour>, and {B} <B.went> off {sulk}.$
    (so|then|the next day) {A} <A.went> to the (house|workshop|door|cottage|yard) of the <N> and (gave|handed) it
    back. "{reward}," (said|laughed|cried|sang) the <N>, and from that day {A} {rewarded}.{moral} {finder_moral}.
mark: crown|star|rose|heart|ship|moon|letter|sun|feather|anchor|bee|bell|key|lion|oak|swan|thistle|tower|wheel|wing|
    wreath|rabbit|cherry tree|bugle
asked: asked|begged|whispered|murmured|pleaded|said
sulk: (with|in) (a red face|great haste|a bad temper) | muttering | without a word | grumbling
reward:
    (honest|good|true) hands are (rare|worth gold|welcome|not easily found)
    | (keep|take) {few} coins for your trouble
    | I had (lost|given up) all hope
rewarded: was (welcome|trusted|greeted) (at every door|in every house|by all) | (never lacked|always had) {food} (in
    winter|at the door) | had a_{snug} place by the fire
finder_moral:
    (honesty|an honest name|a clear conscience) is (worth|better than) (gold|more than it costs|any find)
    | (a lie|a false claim) (stumbles|fails) (over|at) the first question

-- 12. A seed wants time.
planting: {peers}$
    [A.is=good][B.is=fool][S:green]{intro} {meet} {scene} (together|that day) they planted {few} (seeds|stones|pips)
    each, (near|by|at|close to) {spot}.$
    "{hmm}, (when will|how soon will) they (grow|sprout|bear)?" {asked} {B}( {loudly}|). "{in_time}," {sayA}. (but|
    yet) every {hour} {B} (dug|scratched|pulled) <B.hers> up to (look|see|count the roots), while {A} (watered|
    weeded|watched|hoed|sheltered|tended) <A.hers> and (waited|sang|let them be).$
    ({some} (weeks|months|years) later|when the {bird} came back) {A} had {few} (green shoots|strong stems|young
    trees), (tall|bright|straight) as (reeds|candles|soldiers|spears|arrows|flagpoles|masts|church towers); {B} had
    only (dry seeds|dust|holes|withered roots). "{hmm}, (what did you do|what is your secret)?" {asked} {B}.
    "(nothing|very little), {A_secret}," {sayA}.{moral} {planting_moral}.
in_time: (in time|when they are ready|not today) | they (work|grow) best unwatched | ask the (rain|sun|earth), not me
A_secret: and I did it {few} weeks long | (every day|{hard}) | but I did it with patience
planting_moral:
    (a seed|good work|a hope|a friendship) dug up (daily|to be looked at|too soon|every day) (never grows|will not
      grow|withers|cannot thrive)
    | what (grows|ripens|lasts) (wants|needs|asks for) (rest|time|trust|rain) more than (eyes|fingers|haste|
      questions)

-- 13. The grass next door.
envy: {peers}$
    [A.is=fool][B.is=good][S:season]{intro} {meet} {scene} {A} (envied|watched|admired|spied on|studied|gazed at)
    <B.him> {hard}.$
    "{hmm}, {envious}," {sayA}. "let us change (places|homes|lives) for a (day|night|week)." {B} (agreed|laughed and
    agreed|shrugged and agreed|sighed and agreed|did not mind|thought it strange and agreed|smiled and agreed).$
    so {A} (lay down|slept|sat|settled|stayed|supped) in the <B.home> of {B}, but it was {snag}, and {snag2}. {B}, in
    the <A.home> of {A}, was (polite about it|no better off|glad too when it was over). {soon} {homeA}. "(how {snug}
    it is here|nowhere is so {snug} as this|what a_{snug} place this is)," <A.he> (said|thought|murmured|sighed|sang|
    whispered).{moral} {envy_moral}.
envious: you (live|eat|sleep) so much better than I do | your <B.home> is (finer|warmer|drier) than mine | you have
    (all the luck|an easy life|everything)
snag: too (hot|cold|wet|loud|dark|high|small|hard|damp|bright|draughty|dusty|gloomy|lonely|slippery|smoky|stuffy|
    wide)
snag2:
    (fleas bit|rain dripped on|the wind woke|the {others} woke|hunger woke) <A.him> (all night|at dawn|{few} times)
    | the {food} (tasted of|smelled of) (smoke|mud|mice|moss)
    | the {roofs} seemed (strange|far away|cold)
envy_moral:
    (the grass next door looks greener|the fire next door seems warmer|the pot next door looks fuller|the bread next
      door smells sweeter) until you (own|try|share|pay for) it
    | (your own|a poor|a plain|a small) (hearth|crust|roof|bed) is (sweeter|better|softer|warmer) than a_(borrowed|
      stranger's|rich) (feast|palace|pillow)

-- 14. Two on a narrow bridge; they yield, or they do not.
bridge: {peers}$
    [A.is=fool][B.is=stiff][S:season]{intro} {scene} over the <W:water> lay a_(plank|log|bridge), (no wider|hardly
    wider) than (a hand|two reeds|a belt). in the middle of it <A.he> met {whoB}.$
    "{hmm}, {back}," {cryA}. "{back2}," {cryB}. {bridge_end}.
stiff: proud|stiff|dignified|obstinate|solemn|grand|surly|sturdy|pig-headed|haughty|mulish|peevish|pompous|
    short-tempered|starchy|unbending
back: go back|make room|step aside|I was here first|let me pass|I am in a hurry
back2: (you|the younger|the smaller) must go back | I never (turn|yield|go back) | my (family|father|mother) (built|
    owns) this bridge | not for (a king|gold|{few} of you)
bridge_end:
    they (stood|pushed|glared|argued|shoved|shouted|waited|scowled) {hard}, (until|and then) both (slipped|fell|
      tumbled|toppled|plunged|splashed) into the <W>. (wet|dripping|cold|soaked|shivering|muddy) and {sorry},
      they (crawled|climbed) out on (the same|one) bank, (and neither had crossed|just where {A} had begun).{moral}
      (pride|stubbornness|a stiff neck|an unbent back) (makes|finds) (every|any) bridge too narrow
    | {then_yield} {A} (lay|knelt) down, and {B} (climbed|stepped) over <A.him> (with care|lightly|on tiptoe). (both|
      so both) came (dry|safe) (home|across|to the other side), and {B} (thanked|blessed|praised) <A.him>
      {gently}.{moral} (where|when|if) one (bends|yields|gives way) (first|in time|gladly), two (arrive|cross|are
      saved|come home)
then_yield: they (stood|glared|argued) {hard}. then | (but|yet) the <W> (roared|foamed|ran deep) below, and
)grammar";

// ----------------------------------------------------------------------------------------------- the grammar

// Keeps a string for good and gives a view of it.
Text intern(std::string text) {
    static std::set<std::string> pool;
    return *pool.insert(std::move(text)).first;
}

bool opens(char c) { return c == '(' || c == '[' || c == '{' || c == '<'; }
bool closes(char c) { return c == ')' || c == ']' || c == '}' || c == '>'; }

Text trim(Text text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

// Splits at a mark, but not inside brackets.
std::vector<Text> split(Text text, char mark) {
    std::vector<Text> parts;
    std::size_t from = 0;
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (opens(text[i])) ++depth;
        if (closes(text[i])) --depth;
        if (depth < 0) throw std::runtime_error("a bracket too many in: " + std::string(text));
        if (depth > 0 || text[i] != mark) continue;
        parts.push_back(text.substr(from, i - from));
        from = i + 1;
    }
    if (depth != 0) throw std::runtime_error("a bracket is open in: " + std::string(text));
    parts.push_back(text.substr(from));
    return parts;
}

// The rules by name. A rule starts at the left margin, and indented lines go on with it; where two lines join
// there is a blank, unless a mark there parts them already.
using Grammar = std::map<Text, std::vector<Text>>;

Grammar read_grammar(std::initializer_list<Text> sources) {
    std::map<std::string, std::string> bodies;
    std::string* body = nullptr;
    for (Text source : sources) {
        while (!source.empty()) {
            const std::size_t end = source.find('\n');
            Text line = source.substr(0, end);
            source.remove_prefix(end + 1);
            if (line.empty() || line.substr(0, 2) == "--") continue;
            if (line.front() != ' ') {
                const std::size_t colon = line.find(':');
                const auto [rule, fresh] = bodies.try_emplace(std::string(line.substr(0, colon)));
                if (!fresh) throw std::runtime_error("two rules are called " + rule->first);
                body = &rule->second;
                *body = trim(line.substr(colon + 1));
                continue;
            }
            line = trim(line);
            const Text bare = "|(/$";
            const bool joined = body->empty() || bare.find(body->back()) != Text::npos || line.front() == '|';
            if (!joined) *body += ' ';
            *body += line;
        }
    }
    Grammar grammar;
    for (auto& [name, text] : bodies) {
        std::vector<Text>& ways = grammar[intern(name)];
        for (Text way : split(intern(std::move(text)), '|')) ways.push_back(trim(way));
    }
    return grammar;
}

const Grammar& grammar() {
    static const Grammar rules = read_grammar({kWords, kTales});
    return rules;
}

// ------------------------------------------------------------------------------------------------- the teller

// A story half told: what is still to be read, and what is remembered. advance() goes on to the next choice, and
// whoever holds the teller decides it with take(). To search, copy the teller and take another way.
class Teller {
  public:
    Teller() { rest_.push_back("{story}"); }

    // A teller with a target says nothing, but follows the target as long as it fits.
    explicit Teller(Text target) : Teller() { target_ = target, following_ = true; }

    bool advance();
    std::size_t ways() const { return ways_.size(); }
    void take(std::size_t way);

    bool arrived() const { return rest_.empty() && !lost_ && place_ == target_.size(); }
    std::string text;

  private:
    enum class Use { say, remember, row };

    Text value(Text name) const;
    void set(Text name, Text value) { memory_.emplace_back(name, value); }
    const std::vector<Text>& rule(Text name) const;
    void say(char c);
    void put(char c);
    void write(char c);

    std::vector<Text> rest_;                     // templates to be read, the innermost last
    std::vector<std::pair<Text, Text>> memory_;  // variables; the latest counts
    std::vector<Text> ways_;                     // the choice at hand, and what to do with it:
    Use use_ = Use::say;
    Text name_, columns_;

    Text keeping_;  // the variable that is being said, and its text so far
    std::string kept_;
    bool capital_ = true, article_ = false;  // what the next letter must heed
    char last_ = '\n';

    Text target_;
    std::size_t place_ = 0;
    bool following_ = false, lost_ = false;
};

Text Teller::value(Text name) const {
    for (auto it = memory_.rbegin(); it != memory_.rend(); ++it) {
        if (it->first == name) return it->second;
    }
    throw std::runtime_error("nothing is called " + std::string(name));
}

const std::vector<Text>& Teller::rule(Text name) const {
    const auto found = grammar().find(name.front() == '*' ? value(name.substr(1)) : name);
    if (found == grammar().end()) throw std::runtime_error("no rule is called " + std::string(name));
    return found->second;
}

// Cuts a bracket from the front of a template and gives what is inside.
Text cut(Text& text) {
    std::size_t end = 0;
    for (int depth = 0; end < text.size(); ++end) {
        if (opens(text[end])) ++depth;
        if (closes(text[end]) && --depth == 0) break;
    }
    const Text inside = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
    return inside;
}

bool Teller::advance() {
    while (!rest_.empty() && !lost_) {
        Text& top = rest_.back();
        if (top.empty()) {
            rest_.pop_back();
            continue;
        }
        const char mark = top.front();
        if (mark == ']') {  // left by take(): here ends what is to be remembered
            set(keeping_, intern(std::move(kept_)));
            keeping_ = {}, kept_.clear();
            top.remove_prefix(1);
            continue;
        }
        if (!opens(mark)) {
            say(mark);
            top.remove_prefix(1);
            continue;
        }
        const Text inside = cut(top);
        const std::size_t colon = inside.find(':'), equals = inside.find('=');
        use_ = Use::say;
        if (mark == '(') {
            ways_ = split(inside, '|');
        } else if (mark == '{') {
            ways_ = rule(inside);
        } else if (mark == '<' && colon == Text::npos) {
            ways_ = {value(inside)};
        } else if (mark == '<') {
            ways_ = rule(inside.substr(colon + 1));
            use_ = Use::remember;
            name_ = inside.substr(0, colon);
        } else if (equals != Text::npos) {
            set(inside.substr(0, equals), inside.substr(equals + 1));
            continue;
        } else {
            const Text table = inside.substr(colon + 1, inside.find('!') - colon - 1);
            ways_ = rule(table);
            use_ = Use::row;
            name_ = inside.substr(0, colon);
            columns_ = ways_.front().substr(1);
            ways_.erase(ways_.begin());
            if (inside.find('!') != Text::npos) std::erase(ways_, value(inside.substr(inside.find('!') + 1)));
        }
        if (ways_.size() > 1) return true;
        take(0);
    }
    return false;
}

void Teller::take(std::size_t way) {
    const Text chosen = ways_[way];
    if (use_ == Use::row) {
        const std::vector<Text> columns = split(columns_, '/'), cells = split(chosen, '/');
        if (cells.size() != columns.size()) throw std::runtime_error("a bad row: " + std::string(chosen));
        set(name_, chosen);
        for (std::size_t i = 0; i < cells.size(); ++i) {
            set(intern(std::string(name_) + "." + std::string(columns[i])), cells[i]);
        }
        return;
    }
    if (use_ == Use::remember) {
        rest_.push_back("]");
        keeping_ = name_;
    }
    rest_.push_back(chosen);
}

// Spelling: articles, capitals, new lines.
void Teller::say(char c) {
    if (c == '_') {
        article_ = true;
    } else if (c == '^') {
        capital_ = true;
    } else if (c == '$') {
        write('\n');
        capital_ = true;
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        if (article_) {
            const bool n = Text("aeiouAEIOU").find(c) != Text::npos;
            article_ = false;
            for (char letter : Text(n ? "n " : " ")) kept_.empty() ? write(letter) : put(letter);
        }
        put(capital_ && c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c);
        capital_ = false;
    } else {
        if (c == '.' || c == '!' || c == '?') capital_ = true;
        if (c == '"') capital_ = last_ == ' ' || last_ == '\n' || last_ == '.';  // opens a speech, or ends it
        put(c);
    }
}

// Writes what belongs to a remembered text, unlike the article before it, which is the reader's own.
void Teller::put(char c) {
    if (!keeping_.empty()) kept_ += c;
    write(c);
}

void Teller::write(char c) {
    last_ = c;
    if (!following_) {
        text += c;
    } else if (place_ < target_.size() && target_[place_] == c) {
        ++place_;
    } else {
        lost_ = true;
    }
}

// ------------------------------------------------------------------------------------------------- the telling

// SplitMix64: small, good, and the same everywhere.
class Dice {
  public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}

    // An even choice below n: throws again in the last, incomplete round of n.
    std::uint64_t below(std::uint64_t n) {
        const std::uint64_t rounds = UINT64_MAX / n;
        std::uint64_t r = next();
        while (r / n >= rounds) r = next();
        return r % n;
    }

  private:
    std::uint64_t next() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31);
    }
    std::uint64_t state_;
};

struct Choice {
    std::size_t place, ways;
};

struct Book {
    std::string text;
    std::vector<std::size_t> starts;  // of the stories
    std::vector<Choice> choices;      // with the place in the text that was reached when they were made

    // The information of the choices made from one place to another.
    double bits(std::size_t from, std::size_t to) const {
        double sum = 0;
        for (const Choice& c : choices) {
            if (c.place >= from && c.place < to) sum += std::log2(static_cast<double>(c.ways));
        }
        return sum;
    }
};

Book tell() {
    Book book;
    Dice dice(kSeed);
    for (int story = 0; story < kStories; ++story) {
        book.starts.push_back(book.text.size());
        Teller teller;
        while (teller.advance()) {
            book.choices.push_back({book.text.size() + teller.text.size(), teller.ways()});
            teller.take(static_cast<std::size_t>(dice.below(teller.ways())));
        }
        book.text += teller.text;
    }
    return book;
}

// ------------------------------------------------------------------------------------------- count and check

std::size_t count_words(const std::string& text) {
    std::set<std::string> words;
    std::string word;
    for (char c : text) {
        if (c >= 'a' && c <= 'z') {
            word += c;
        } else if (c >= 'A' && c <= 'Z') {
            word += static_cast<char>(c - 'A' + 'a');
        } else if (!word.empty()) {
            words.insert(std::move(word));
            word.clear();
        }
    }
    return words.size();
}

void print_summary(const Book& book) {
    const std::size_t n = book.text.size(), cut_at = n / 10 * 9 + n % 10 * 9 / 10;
    const double all = book.bits(0, n) / static_cast<double>(n);
    const double last = book.bits(cut_at, n) / static_cast<double>(n - cut_at);
    const std::set<char> alphabet(book.text.begin(), book.text.end());
    std::printf("characters  %zu, of which %zu are distinct\n", n, alphabet.size());
    std::printf("stories     %zu\n", book.starts.size());
    std::printf("words       %zu are distinct\n", count_words(book.text));
    std::printf("entropy     %.4f bits = %.4f nats a character\n", all, all * std::log(2.0));
    std::printf("last 10 %%   %.4f bits = %.4f nats a character\n", last, last * std::log(2.0));
}

// The ways to tell a story from where the teller is, each weighing 2^bits at the start and halved by every bit.
struct Ways {
    std::size_t count = 0;
    double weight = 0;
};

Ways search(Teller teller, double bits) {
    if (!teller.advance()) return teller.arrived() ? Ways{1, std::exp2(bits)} : Ways{};
    Ways sum;
    bits -= std::log2(static_cast<double>(teller.ways()));
    for (std::size_t way = 0; way < teller.ways(); ++way) {
        Teller next = teller;
        next.take(way);
        const Ways found = search(std::move(next), bits);
        sum.count += found.count;
        sum.weight += found.weight;
    }
    return sum;
}

bool check(const Book& book) {
    bool fine = true;
    double excess = 0;
    for (std::size_t i = 0; i < book.starts.size(); ++i) {
        const std::size_t from = book.starts[i];
        const std::size_t to = i + 1 < book.starts.size() ? book.starts[i + 1] : book.text.size();
        const Text story = Text(book.text).substr(from, to - from);
        if (story.find("\n\n") != story.size() - 2) throw std::runtime_error("a story has an empty line inside");
        const Ways ways = search(Teller(story), book.bits(from, to));
        excess += std::log2(ways.weight);
        if (ways.count == 1) continue;
        fine = false;
        std::printf("story %zu can be told in %zu ways:\n%s", i, ways.count, std::string(story).c_str());
    }
    for (Text slip : {"  ", " .", " ,", "..", ",,", "( ", " \n", "\n ", ",.", "\"\"", ".,", "_", "a a ", "the the "}) {
        if (book.text.find(slip) == std::string::npos) continue;
        fine = false;
        std::printf("slip: \"%s\"\n", std::string(slip).c_str());
    }
    std::printf("%zu stories, %.1f bits by the choices made, %.1f bits by the chance of the text\n", book.starts.size(),
        book.bits(0, book.text.size()), book.bits(0, book.text.size()) - excess);
    return fine;
}

// Writes beside the file and renames, so that there is never half a text.
void save(const std::string& text, const std::filesystem::path& path) {
    if (exists(path) && !is_regular_file(path)) throw std::runtime_error(path.string() + " is not a regular file");
    std::filesystem::path beside = path;
    beside += ".part";
    std::ofstream file(beside, std::ios::binary);
    file << text;
    file.close();
    std::error_code error;
    if (file) std::filesystem::rename(beside, path, error);
    if (file && !error) return;
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc == 2 ? argv[1] : "";
    if (what.empty() || (what.front() == '-' && what != "--check")) {
        std::fputs("usage: fables FILE | --check\n", stderr);
        return 2;
    }
    try {
        const Book book = tell();
        if (what == "--check") return check(book) ? 0 : 1;
        save(book.text, what);
        print_summary(book);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "fables: %s\n", error.what());
        return 1;
    }
    return 0;
}
