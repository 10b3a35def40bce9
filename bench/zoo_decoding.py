"""Steps of published language models with keys and values of earlier words in memory that stays where it is
(transformers' StaticCache): one more word for each sample, several guessed words, the words of a prompt; the decoders
of translators and of listeners; and steps whose keys grow with each word (DynamicCache)."""

import torch
from torch import nn

from zoo_entries import Entry

ROOM, VOCABULARY, BEFORE = 1024, 32000, 700
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
}


def shape_of_keys(config, samples, room):
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if getattr(config, "multi_query", False):
        heads = 1
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return samples, heads, room, size


class Step(nn.Module):
    """The scores of the words that may follow. What is remembered lies in buffers, since graphs want it in place."""

    def __init__(self, model, samples, before):
        super().__init__()
        from transformers import StaticCache

        self.model, self.before = model, before
        self.cache = StaticCache(model.config, max_cache_len=ROOM)
        for k, layer in enumerate(self.cache.layers):
            shape = shape_of_keys(model.config, samples, layer.max_cache_len)
            self.register_buffer(f"keys{k}", torch.randn(shape))
            self.register_buffer(f"values{k}", torch.randn(shape))

    def forward(self, words, place):
        for k, layer in enumerate(self.cache.layers):
            layer.keys, layer.values = self.get_buffer(f"keys{k}"), self.get_buffer(f"values{k}")
            layer.is_initialized, layer.device = True, words.device
            layer.cumulative_length, layer.cumulative_length_int = place.clone(), self.before
        places = (place + torch.arange(words.shape[1], device=words.device)).expand(words.shape)
        return self.model(words, position_ids=places, past_key_values=self.cache, use_cache=True).logits[:, -1]


class GrowingStep(nn.Module):
    """The scores of the words that may follow, and the keys and values with one word more in each."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, words, *remembered):
        from transformers import DynamicCache

        pairs = list(zip(remembered[::2], remembered[1::2], strict=True))
        out = self.model(words, past_key_values=DynamicCache(pairs), use_cache=True)
        layers = out.past_key_values.layers
        return out.logits[:, -1], *(tensor for layer in layers for tensor in (layer.keys, layer.values))


class DecoderStep(nn.Module):
    """A step of the decoder of a model with an encoder, whose own keys and those of the encoder's states are there."""

    def __init__(self, model, samples, heads, size, layers):
        super().__init__()
        from transformers import EncoderDecoderCache, StaticCache

        self.model = model
        config = model.config.get_text_config(decoder=True)
        self.cache = EncoderDecoderCache(StaticCache(config, max_cache_len=256), StaticCache(config, max_cache_len=512))
        for k in range(layers):
            for name, length in (("own", 256), ("cross", 512)):
                for which in ("keys", "values"):
                    self.register_buffer(f"{name}_{which}{k}", torch.randn(samples, heads, length, size))

    def forward(self, words, states, place):
        from transformers.modeling_outputs import BaseModelOutput

        for name, cache in (("own", self.cache.self_attention_cache), ("cross", self.cache.cross_attention_cache)):
            for k, layer in enumerate(cache.layers):
                layer.keys, layer.values = (self.get_buffer(f"{name}_{which}{k}") for which in ("keys", "values"))
                layer.is_initialized, layer.device, layer.cumulative_length = True, words.device, place.clone()
        self.cache.is_updated = dict.fromkeys(range(len(self.cache.self_attention_cache.layers)), True)
        encoded = BaseModelOutput(last_hidden_state=states)
        out = self.model(encoder_outputs=encoded, decoder_input_ids=words, past_key_values=self.cache, use_cache=True)
        return out.logits[:, -1]


def language_model(family, settings):
    import transformers

    config = getattr(transformers, f"{family}Config")(**SIZES | settings)
    return getattr(transformers, f"{family.removesuffix('Text')}ForCausalLM")(config)


def words(samples, length):
    return torch.randint(0, VOCABULARY, (samples, length))


def step(family, samples, settings, length=1, before=BEFORE):
    def make():
        return Step(language_model(family, settings), samples, before)

    return Entry(make, lambda n: (words(n, length), torch.tensor([before])), samples, samples)


def growing_step(family, samples, settings):
    def inputs(n):
        shape = n, settings.get("num_key_value_heads", SIZES["num_attention_heads"]), BEFORE, 64
        return words(n, 1), *(torch.randn(shape) for _ in range(2 * SIZES["num_hidden_layers"]))

    return Entry(lambda: GrowingStep(language_model(family, settings)), inputs, samples, samples)


def decoder_step(name, samples, settings):
    heads, size, layers = 8, 64, 6

    def make():
        import transformers

        model = getattr(transformers, f"{name}ForConditionalGeneration")
        return DecoderStep(model(model.config_class(**settings)), samples, heads, size, layers)

    inputs = lambda n: (torch.randint(0, 5000, (n, 1)), torch.randn(n, 512, heads * size), torch.tensor([100]))
    return Entry(make, inputs, samples, samples)


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
WINDOWS = {"sliding_window": 256}
MIXTURE = {"num_key_value_heads": 4, "intermediate_size": 512, "moe_intermediate_size": 512}
OTHERS = {
    "gemma2": ("Gemma2", WINDOWS | {"num_key_value_heads": 4, "head_dim": 64}),
    "gemma3": ("Gemma3Text", WINDOWS | {"num_key_value_heads": 4, "head_dim": 64}),
    "mistral": ("Mistral", WINDOWS | {"num_key_value_heads": 4}),
    "falcon": ("Falcon", {"multi_query": True, "new_decoder_architecture": False, "num_kv_heads": 1}),
    "cohere": ("Cohere", {"num_key_value_heads": 4}),
    "gptj": ("GPTJ", {"n_embd": 1024, "n_layer": 12, "n_head": 16, "rotary_dim": 32}),
    "opt": ("OPT", {"ffn_dim": 4096, "word_embed_proj_dim": 1024}),
    "phi3": ("Phi3", {"num_key_value_heads": 4, "pad_token_id": 0}),
    "glm": ("Glm", {"num_key_value_heads": 4, "head_dim": 64, "pad_token_id": 0}),
    "mixtral": ("Mixtral", MIXTURE | {"sliding_window": None}),
    "qwen3_moe": ("Qwen3Moe", MIXTURE | {"num_experts": 32, "num_experts_per_tok": 4, "head_dim": 64}),
    "olmoe": ("Olmoe", MIXTURE | {"num_experts": 32, "num_experts_per_tok": 4}),
    "gpt_oss": ("GptOss", MIXTURE | WINDOWS | {"num_local_experts": 16, "head_dim": 64}),
}
PAIR = {
    "encoder_attention_heads": 8,
    "d_model": 512,
    "decoder_layers": 6,
    "encoder_layers": 1,
    "decoder_attention_heads": 8,
}
TRANSLATORS = {
    "bart": ("Bart", PAIR | {"decoder_ffn_dim": 2048}),
    "pegasus": ("Pegasus", PAIR | {"decoder_ffn_dim": 2048}),
    "t5": ("T5", {"d_model": 512, "num_layers": 6, "num_decoder_layers": 6, "num_heads": 8, "d_kv": 64}),
    "whisper": ("Whisper", PAIR | {"decoder_ffn_dim": 2048, "vocab_size": 51865}),
}
GROWING_FAMILIES = {name: FAMILIES[name] for name in ("llama", "gpt_neox", "qwen2")} | {
    "bloom": ("Bloom", {"n_layer": 12, "n_head": 16})
}
STEPS = {
    f"{name}_step_of_{samples}": step(family, samples, settings)
    for name, (family, settings) in (FAMILIES | OTHERS).items()
    for samples in (1, 16)
}
PROMPTS = {
    f"{name}_{kind}": step(FAMILIES[name][0], samples, FAMILIES[name][1], length, before)
    for name in ("llama", "gpt_neox", "qwen3", "gemma")
    for kind, samples, length, before in (("guesses", 4, 8, BEFORE), ("prompt", 1, 512, 0))
}
GROWING = {
    f"{name}_growing_step_of_{samples}": growing_step(family, samples, settings)
    for name, (family, settings) in GROWING_FAMILIES.items()
    for samples in (1, 16)
}
DECODERS = {
    f"{name}_step_of_{samples}": decoder_step(model, samples, settings)
    for name, (model, settings) in TRANSLATORS.items()
    for samples in (1, 16)
}
ENTRIES = STEPS | PROMPTS | GROWING | DECODERS
