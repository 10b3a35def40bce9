"""Decode steps of published language models: one more word for each sample, with keys and values of up to 1,024 words
in memory that stays where it is (transformers' StaticCache)."""

import torch
from torch import nn

from zoo_entries import Entry

ROOM, VOCABULARY = 1024, 32000
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
}


class Step(nn.Module):
    """The scores of the words that may follow. What is remembered lies in buffers, since graphs want it in place."""

    def __init__(self, model, samples):
        super().__init__()
        from transformers import StaticCache

        self.model = model
        self.cache = StaticCache(model.config, max_cache_len=ROOM)
        config = model.config
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        for k in range(2 * len(self.cache.layers)):
            self.register_buffer(f"cache{k}", torch.randn(samples, heads, ROOM, size))

    def forward(self, words, place):
        n = words.shape[0]
        for k, layer in enumerate(self.cache.layers):
            layer.keys, layer.values = (self.get_buffer(f"cache{2 * k + i}") for i in range(2))
            layer.is_initialized, layer.device = True, words.device
            layer.cumulative_length = place.clone()
        places = place.expand(n, 1)
        return self.model(words, position_ids=places, past_key_values=self.cache, use_cache=True).logits[:, -1]


def step(family, samples, settings):
    def make():
        import transformers

        config = getattr(transformers, f"{family}Config")(**SIZES | settings)
        return Step(getattr(transformers, f"{family}ForCausalLM")(config), samples)

    return Entry(make, lambda n: (torch.randint(0, VOCABULARY, (n, 1)), torch.tensor([700])), samples, samples)


FAMILIES = {
    "llama": ("Llama", {"num_key_value_heads": 4}),
    "gpt_neox": ("GPTNeoX", {"intermediate_size": 4096}),
    "qwen2": ("Qwen2", {"num_key_value_heads": 4, "use_sliding_window": False}),
    "qwen3": ("Qwen3", {"num_key_value_heads": 8, "head_dim": 64, "use_sliding_window": False}),
    "gemma": ("Gemma", {"num_key_value_heads": 1, "head_dim": 128, "num_attention_heads": 8}),
    "phi": ("Phi", {"intermediate_size": 4096}),
    "stablelm": ("StableLm", {"num_key_value_heads": 4}),
    "olmo2": ("Olmo2", {"num_key_value_heads": 16}),
    "granite": ("Granite", {"num_key_value_heads": 4}),
    "starcoder2": ("Starcoder2", {"num_key_value_heads": 2, "intermediate_size": 4096, "sliding_window": None}),
}
STEPS = {
    f"{name}_step_of_{samples}": step(family, samples, settings)
    for name, (family, settings) in FAMILIES.items()
    for samples in (1, 16)
}
