"""Models whose batch, lengths, heights and widths are free, and programs whose sizes and branches depend on data: name
-> (module, a function from sizes to arguments, the dynamic shapes, the range of each size). A batch may be empty where
eager takes that; the models of transformers and what seeks an extreme of no rows do not.
"""

import torch
from torch import nn
from torch.export import Dim

SMALL = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, vocab_size=100)


class Call(nn.Module):
    """A model of transformers, called with what it takes and giving what it computes."""

    def __init__(self, model):
        super().__init__()
        self.model = model.eval()


def bert():
    import transformers

    class Net(Call):
        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    def make(batch, length):
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[:1, (length + 1) // 2 :] = 0
        return torch.randint(0, 100, (batch, length)), mask

    sizes = {0: Dim("batch", min=1, max=16), 1: Dim("length", min=2, max=64)}
    return (
        Net(transformers.BertModel(transformers.BertConfig(**SMALL))),
        make,
        {"ids": sizes, "mask": sizes},
        ((1, 16), (2, 64)),
    )


def gpt2():
    import transformers

    class Net(Call):
        def forward(self, ids):
            return self.model(ids).logits

    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=100, n_positions=64, use_cache=False)
    sizes = {0: Dim("batch", min=1, max=16), 1: Dim("length", min=2, max=64)}
    return (
        Net(transformers.GPT2LMHeadModel(config)),
        lambda b, n: (torch.randint(0, 100, (b, n)),),
        {"ids": sizes},
        ((1, 16), (2, 64)),
    )


def llama():
    """New tokens with the keys and values of the tokens before them; what is grown goes out again."""
    import transformers

    class Net(Call):
        def forward(self, ids, past):
            cache = transformers.DynamicCache()
            for layer, (keys, values) in enumerate(past):
                cache.update(keys, values, layer)
            result = self.model(input_ids=ids, past_key_values=cache, use_cache=True)
            return result.logits, [(layer.keys, layer.values) for layer in result.past_key_values.layers]

    def make(batch, new, before):
        return torch.randint(0, 100, (batch, new)), [
            (torch.randn(batch, 2, before, 8), torch.randn(batch, 2, before, 8)) for _ in range(2)
        ]

    batch, before = Dim("batch", min=1, max=8), Dim("before", min=1, max=64)
    each = {0: batch, 2: before}
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(**SMALL, num_key_value_heads=2, max_position_embeddings=128)
    )
    return (
        Net(model),
        make,
        {"ids": {0: batch, 1: Dim("new", min=2, max=32)}, "past": [(each, each)] * 2},
        ((1, 8), (2, 32), (1, 64)),
    )


def t5():
    """One step of an encoder and a decoder."""
    import transformers

    class Net(Call):
        def forward(self, ids, mask, decoder_ids):
            return self.model(input_ids=ids, attention_mask=mask, decoder_input_ids=decoder_ids, use_cache=False).logits

    def make(batch, length, decoded):
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[-1:, (length + 1) // 2 :] = 0
        return torch.randint(0, 100, (batch, length)), mask, torch.randint(0, 100, (batch, decoded))

    batch, length = Dim("batch", min=1, max=8), Dim("length", min=2, max=64)
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=100, decoder_start_token_id=0
    )
    shapes = {
        "ids": {0: batch, 1: length},
        "mask": {0: batch, 1: length},
        "decoder_ids": {0: batch, 1: Dim("decoded", min=2, max=32)},
    }
    return Net(transformers.T5ForConditionalGeneration(config)), make, shapes, ((1, 8), (2, 64), (2, 32))


def whisper():
    """The layers of an encoder over spectrograms, at any length up to the model's (its own forward takes that length
    alone).
    """
    import transformers

    class Net(Call):
        def forward(self, features):
            encoder = self.model
            x = nn.functional.gelu(encoder.conv2(nn.functional.gelu(encoder.conv1(features)))).transpose(1, 2)
            x = x + encoder.embed_positions.weight[: x.shape[1]]
            for layer in encoder.layers:
                x = layer(x, None)
                x = x[0] if isinstance(x, tuple) else x
            return encoder.layer_norm(x)

    config = transformers.WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=30,
    )
    shapes = {"features": {0: Dim("batch", min=1, max=16), 2: Dim("length", min=4, max=60)}}
    return (
        Net(transformers.WhisperModel(config).encoder),
        lambda b, n: (torch.randn(b, 16, n),),
        shapes,
        ((1, 16), (4, 60)),
    )


def resnet():
    """ResNet-50's layers at an eighth of its width."""
    import transformers

    class Net(Call):
        def forward(self, x):
            y = self.model(x)
            return y.last_hidden_state, y.pooler_output

    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[32, 64, 128, 256], depths=[3, 4, 6, 3], layer_type="bottleneck"
    )
    shapes = {"x": {0: Dim("batch", min=0, max=4), 2: Dim("height", min=33, max=96), 3: Dim("width", min=33, max=96)}}
    return (
        Net(transformers.ResNetModel(config)),
        lambda b, h, w: (torch.randn(b, 3, h, w),),
        shapes,
        ((0, 4), (33, 96), (33, 96)),
    )


class UNet(nn.Module):
    """Two levels down, two up, with skip connections; heights and widths are multiples of 4."""

    def __init__(self):
        super().__init__()
        block = lambda a, b: nn.Sequential(
            nn.Conv2d(a, b, 3, padding=1),
            nn.GroupNorm(2, b),
            nn.SiLU(),
            nn.Conv2d(b, b, 3, padding=1),
            nn.BatchNorm2d(b),
            nn.ReLU(),
        )
        self.first, self.second, self.bottom = block(3, 8), block(8, 16), block(16, 16)
        self.up1, self.up2 = nn.ConvTranspose2d(16, 16, 2, stride=2), nn.Upsample(scale_factor=2, mode="nearest")
        self.join1, self.join2, self.last = block(32, 16), block(24, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        a = self.first(x)
        b = self.second(nn.functional.max_pool2d(a, 2))
        c = self.bottom(nn.functional.max_pool2d(b, 2))
        d = self.join1(torch.cat([self.up1(c), b], 1))
        return self.last(self.join2(torch.cat([self.up2(d), a], 1)))


def unet():
    height, width = Dim("height", min=1, max=16), Dim("width", min=1, max=16)
    shapes = {"x": {0: Dim("batch", min=0, max=4), 2: 4 * height, 3: 4 * width}}
    return UNet().eval(), lambda b, h, w: (torch.randn(b, 3, 4 * h, 4 * w),), shapes, ((0, 4), (1, 16), (1, 16))


def decode():
    """Greedy decoding as a loop, from any position on."""
    from test_control_flow import TinyGpt

    return (
        TinyGpt().eval(),
        lambda b, start: (torch.randint(0, 17, (b, 12)), torch.tensor(start)),
        {"tokens": {0: Dim("batch", min=0, max=8)}, "start": None},
        ((0, 8), (1, 12)),
    )


def suppress():
    """Non-maximum suppression as a loop."""
    from test_control_flow import Suppress

    def make(n, overlap):
        corner = torch.rand(n, 2) * 4
        return (
            torch.cat([corner, corner + torch.rand(n, 2) * 3 + 0.1], 1),
            torch.randperm(n) / n,
            torch.tensor(overlap / 10),
        )

    rows = {0: Dim("rows", min=1, max=40)}
    return Suppress(), make, {"boxes": rows, "scores": rows, "limit": None}, ((1, 40), (0, 10))


def experts():
    """A mixture of experts: tokens are routed by nonzero and index_put."""
    from test_unbacked import MixtureOfExperts

    return MixtureOfExperts().eval(), lambda n: (torch.randn(n, 8),), {"x": {0: Dim("rows", min=0, max=64)}}, ((0, 64),)


def ragged():
    from test_unbacked import Ragged

    rows = {0: Dim("rows", min=0, max=32)}
    return (
        Ragged(),
        lambda n, top: (torch.randint(0, top + 1, (n,)), torch.randn(n, 4)),
        {"lengths": rows, "table": rows},
        ((0, 32), (0, 9)),
    )


def branch():
    """A branch between two subnetworks."""
    from test_control_flow import TwoNetworks

    # Torch asserts that results of branches have no size of 1.
    return (
        TwoNetworks().eval(),
        lambda n, side: (torch.rand(n, 4) * (2 * side - 1),),
        {"x": {0: Dim("rows", min=2, max=64)}},
        ((2, 64), (0, 1)),
    )


MODELS = {
    "bert": bert,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
    "whisper": whisper,
    "resnet": resnet,
    "unet": unet,
    "decode": decode,
    "suppress": suppress,
    "experts": experts,
    "ragged": ragged,
    "branch": branch,
}
