#!/usr/bin/env python3
"""The training step of `build/bench` in PyTorch, to be timed beside it: the same gpt2 model, batch, clipping and AdamW.

    OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=1 python3 tests/pytorch_step.py --n_layer=4

takes build/bench's options for the sizes. Prints the median step, the process's largest memory, and how many tokens a
second it samples without a cache, as nanoGPT does. With OpenBLAS try OPENBLAS_NUM_THREADS=1 and 2, and
OPENBLAS_CORETYPE=SkylakeX for AVX-512.
"""
import argparse
import math
import resource
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.n_head = o.n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(o.n_embd), nn.LayerNorm(o.n_embd)
        self.c_attn, self.c_proj = nn.Linear(o.n_embd, 3 * o.n_embd), nn.Linear(o.n_embd, o.n_embd)
        self.c_fc, self.c_out = nn.Linear(o.n_embd, 4 * o.n_embd), nn.Linear(4 * o.n_embd, o.n_embd)
        later = torch.ones(o.block_size, o.block_size, dtype=torch.bool).triu(1)
        self.register_buffer("hidden", torch.zeros(later.shape).masked_fill(later, -math.inf))

    def attention(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(x).view(B, T, 3, self.n_head, C // self.n_head).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):  # PyTorch 2
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) * (C // self.n_head) ** -0.5 + self.hidden[:T, :T]
            y = scores.softmax(3) @ v
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))

    def forward(self, x):
        x = x + self.attention(self.ln_1(x))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(o.vocab_size, o.n_embd), nn.Embedding(o.block_size, o.n_embd)
        self.blocks = nn.Sequential(*(Block(o) for _ in range(o.n_layer)))
        self.ln_f = nn.LayerNorm(o.n_embd)
        for table in (self.wte, self.wpe):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sizes = dict(n_layer=4, n_head=4, n_embd=128, block_size=64, batch_size=12, vocab_size=65, steps=60, new_tokens=100)
    for name, value in sizes.items():
        parser.add_argument("--" + name, type=int, default=value)
    o = parser.parse_args()

    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    gpt = GPT(o)
    adamw = torch.optim.AdamW(gpt.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1)
    tokens, targets = torch.randint(o.vocab_size, (2, o.batch_size, o.block_size))
    seconds = []
    for _ in range(o.steps):
        start = time.perf_counter()
        loss = F.cross_entropy(gpt(tokens).flatten(0, 1), targets.flatten())
        adamw.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(gpt.parameters(), 1)
        adamw.step()
        seconds.append(time.perf_counter() - start)
    step = statistics.median(seconds[min(5, o.steps // 3):])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"training step {1000 * step:.1f} ms, {o.batch_size * o.block_size / step:.0f} tokens/s, {memory:.2f} GB")

    gpt.eval()
    with torch.no_grad():
        text = torch.zeros(1, 1, dtype=torch.long)
        start = time.perf_counter()
        for _ in range(o.new_tokens):
            p = gpt(text[:, -o.block_size:])[:, -1].softmax(1)
            text = torch.cat([text, torch.multinomial(p, 1)], 1)
        print(f"sampling {o.new_tokens / (time.perf_counter() - start):.0f} tokens/s (no cache)")


main()
