#!/usr/bin/env python3
"""Reads a model's directory by Hugging Face's conventions, with numpy in float64, and scores a text.

independent.py DIR TEXT [EXPECTED]

prints the mean loss over consecutive windows of the context length, every token but the first scored once, as
`nanogpt eval` does. EXPECTED is a text_loss.json, or a file with the line that `nanogpt eval --split=val` printed; it
must agree to six digits.
"""
import json
import struct
import sys

import numpy as np


def read_safetensors(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    types = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        data = np.frombuffer(content[8 + length + begin : 8 + length + end], types[entry["dtype"]])
        tensors[name] = data.reshape(entry["shape"]).astype(np.float64)
    return tensors


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v):
    """q, k, v [heads, T, width]; causal."""
    length = q.shape[1]
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    return softmax(scores) @ v


def split(x, heads):
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def join(x):
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def gpt2(config, w, tokens):
    eps, heads = config["layer_norm_epsilon"], config["n_head"]

    def norm(x, name):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + eps) * w[name + ".weight"] + w[name + ".bias"]

    def linear(x, name):  # Conv1D: [in, out]
        return x @ w[name + ".weight"] + w[name + ".bias"]

    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][: len(tokens)]
    for layer in range(config["n_layer"]):
        h = f"transformer.h.{layer}."
        q, k, v = (split(part, heads) for part in np.split(linear(norm(x, h + "ln_1"), h + "attn.c_attn"), 3, axis=-1))
        x = x + linear(join(attention(q, k, v)), h + "attn.c_proj")
        z = linear(norm(x, h + "ln_2"), h + "mlp.c_fc")
        gelu_new = 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
        x = x + linear(gelu_new, h + "mlp.c_proj")
    return norm(x, "transformer.ln_f"), "transformer.wte.weight"


def llama(config, w, tokens):
    eps, heads, kv_heads = config["rms_norm_eps"], config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads

    def norm(x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[name + ".weight"]

    def linear(x, name):  # Linear: [out, in]
        return x @ w[name + ".weight"].T + w.get(name + ".bias", 0)

    frequencies = 1 / config["rope_theta"] ** (np.arange(0, width, 2) / width)
    angles = np.outer(np.arange(len(tokens)), frequencies)
    cos, sin = np.cos(np.hstack([angles, angles])), np.sin(np.hstack([angles, angles]))

    def rope(x):  # [heads, T, width]: the halves are rotated against each other
        half = np.concatenate([-x[..., width // 2 :], x[..., : width // 2]], -1)
        return x * cos + half * sin

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):
        h = f"model.layers.{layer}."
        a = norm(x, h + "input_layernorm")
        q = rope(split(linear(a, h + "self_attn.q_proj"), heads))
        k = rope(split(linear(a, h + "self_attn.k_proj"), kv_heads))
        v = split(linear(a, h + "self_attn.v_proj"), kv_heads)
        k, v = np.repeat(k, heads // kv_heads, 0), np.repeat(v, heads // kv_heads, 0)
        x = x + linear(join(attention(q, k, v)), h + "self_attn.o_proj")
        a = norm(x, h + "post_attention_layernorm")
        gate = linear(a, h + "mlp.gate_proj")
        x = x + linear(gate / (1 + np.exp(-gate)) * linear(a, h + "mlp.up_proj"), h + "mlp.down_proj")
    return norm(x, "model.norm"), "model.embed_tokens.weight"


def main():
    directory, text_path = sys.argv[1:3]
    with open(directory + "/config.json", encoding="utf-8") as file:
        config = json.load(file)
    with open(directory + "/tokenizer.json", encoding="utf-8") as file:
        vocab = json.load(file)["model"]["vocab"]
    with open(text_path, encoding="utf-8", newline="") as file:
        text = file.read()
    architecture = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM"}[config["model_type"]]
    assert config["architectures"] == [architecture], config["architectures"]
    assert len(vocab) == config["vocab_size"] and sorted(vocab.values()) == list(range(len(vocab)))
    w = read_safetensors(directory + "/model.safetensors")
    tied = config.get("tie_word_embeddings", config["model_type"] == "gpt2")
    assert tied != ("lm_head.weight" in w), "lm_head.weight stands in the file exactly if it is not tied"
    model, context = (gpt2, "n_positions") if config["model_type"] == "gpt2" else (llama, "max_position_embeddings")

    expected = None
    if len(sys.argv) > 3:
        with open(sys.argv[3], encoding="utf-8") as file:
            content = file.read()
        if content.startswith("{"):
            expected = json.loads(content)["mean_loss_nats_per_token"]
        else:
            expected = float(content.split()[1])
            text = text[len(text) * 9 // 10 :]  # --split=val
    tokens = np.array([vocab[c] for c in text])
    total, length = 0.0, config[context]
    for start in range(0, len(tokens) - 1, length):
        window = tokens[start : start + length + 1]
        x, embedding = model(config, w, window[:-1])
        logits = x @ w[embedding if tied else "lm_head.weight"].T
        top = logits.max(-1)
        log_sum = top + np.log(np.exp(logits - top[:, None]).sum(-1))
        total += (log_sum - logits[np.arange(len(window) - 1), window[1:]]).sum()
    loss = total / (len(tokens) - 1)
    print(f"loss {loss:.6f} nats/token, {len(tokens) - 1} tokens")
    if expected is not None and abs(loss - expected) > 2e-6 * max(1, abs(expected)):
        sys.exit(f"{directory}: expected {expected:.6f}")


main()
