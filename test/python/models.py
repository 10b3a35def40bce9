"""Real models: name -> a function that makes (module, args, dynamic shapes, other args to run); small ones for every
run, the contract's at full size.
"""

import torch
from torch import nn


class Last(nn.Module):
    """The last hidden state alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).last_hidden_state


def transformer(model, config, shape, vocab=None, dtype=torch.float32, **settings):
    import transformers

    module = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()
    return (
        Last(module).to(dtype),
        (torch.randint(0, vocab, shape) if vocab else torch.randn(shape).to(dtype),),
        None,
        [],
    )


class Nested(nn.Module):
    """Dicts, tuples, a Python number, a buffer and an input written in place, a dynamic size."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, state):
        self.calls += 1
        state["h"].mul_(0.5).add_(self.lin(x).sum(0))
        return {"y": (self.lin(x).tanh(), self.calls * 1.0), "n": x.shape[0] + 1}


def nested():
    make = lambda n: (torch.randn(n, 8), {"h": torch.randn(4)})
    return (
        Nested().eval(),
        make(3),
        {"x": {0: torch.export.Dim("n", min=1, max=100)}, "state": {"h": None}},
        [make(1), make(100)],
    )


def lstm():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.out = nn.LSTM(12, 16, num_layers=2, batch_first=True), nn.Linear(16, 5)

        def forward(self, x):
            y, (h, c) = self.rnn(x)
            return {"scores": self.out(y[:, -1]), "state": (h, c)}

    return Net().eval(), (torch.randn(3, 7, 12),), None, []


def encoder():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval(), (torch.randn(2, 9, 32),), None, []


def unet():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.middle = nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=1)
            self.up, self.last = nn.ConvTranspose2d(8, 8, 2, stride=2), nn.Conv2d(11, 2, 1)
            self.norm = nn.GroupNorm(2, 8)

        def forward(self, x):
            h = nn.functional.silu(self.norm(self.middle(nn.functional.relu(self.down(x)))))
            return self.last(torch.cat([self.up(h), x], 1))

    return Net().eval(), (torch.randn(1, 3, 16, 20),), None, []


def digits():
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    ).eval()
    net[1].running_mean.normal_()
    net[1].running_var.uniform_(0.5, 2)
    make = lambda n: (torch.randn(n, 1, 8, 8),)
    return net, make(2), ({0: torch.export.Dim("n", min=1, max=64)},), [make(1), make(33)]


BERT = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=200)


def bert_dynamic():
    """Batch and sequence length free, with an attention mask."""
    import transformers

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.BertModel(transformers.BertConfig(**BERT, attn_implementation="eager")).eval()

        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    def make(batch, length):
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[0, length // 2 + 1 :] = 0
        return torch.randint(0, 200, (batch, length)), mask

    sizes = {0: torch.export.Dim("batch", min=1, max=64), 1: torch.export.Dim("length", min=2, max=512)}
    return Net(), make(2, 12), {"ids": sizes, "mask": sizes}, [make(1, 5), make(5, 33)]


def buffers():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(6)
            self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
            self.register_buffer("scale", torch.full((6,), 2.0), persistent=False)

        def forward(self, x):
            self.seen += x.shape[0]
            return self.norm(x) * self.scale, self.seen + 0

    return Net().train(), (torch.randn(9, 6),), None, []


SMALL = {
    "nested": nested,
    "digits": digits,
    "encoder": encoder,
    "unet": unet,
    "buffers": buffers,
    "bert_dynamic": bert_dynamic,
    "bert": lambda: transformer("BertModel", "BertConfig", (2, 16), 200, **BERT),
    "bert_bf16": lambda: transformer("BertModel", "BertConfig", (2, 16), 200, torch.bfloat16, **BERT),
    "gpt2": lambda: transformer(
        "GPT2Model", "GPT2Config", (1, 16), 300, n_embd=64, n_layer=2, n_head=4, vocab_size=300, use_cache=False
    ),
    "llama": lambda: transformer(
        "LlamaModel",
        "LlamaConfig",
        (1, 16),
        300,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=300,
        use_cache=False,
    ),
    "resnet": lambda: transformer(
        "ResNetModel",
        "ResNetConfig",
        (1, 3, 64, 64),
        embedding_size=8,
        hidden_sizes=[16, 32, 32, 64],
        depths=[1, 1, 1, 1],
    ),
    "vit": lambda: transformer(
        "ViTModel",
        "ViTConfig",
        (1, 3, 32, 32),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
    ),
    "mobilenetv2": lambda: transformer(
        "MobileNetV2Model", "MobileNetV2Config", (1, 3, 64, 64), depth_multiplier=0.35, image_size=64
    ),
    "distilbert": lambda: transformer(
        "DistilBertModel",
        "DistilBertConfig",
        (2, 16),
        200,
        dim=64,
        n_layers=2,
        n_heads=4,
        hidden_dim=128,
        vocab_size=200,
    ),
    "roberta": lambda: transformer("RobertaModel", "RobertaConfig", (2, 16), 200, **BERT),
    "opt": lambda: transformer(
        "OPTModel",
        "OPTConfig",
        (1, 16),
        300,
        hidden_size=64,
        word_embed_proj_dim=64,
        ffn_dim=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        vocab_size=300,
        use_cache=False,
    ),
    "qwen2": lambda: transformer(
        "Qwen2Model",
        "Qwen2Config",
        (1, 16),
        300,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=300,
        use_cache=False,
    ),
    "convnext": lambda: transformer(
        "ConvNextModel", "ConvNextConfig", (1, 3, 64, 64), hidden_sizes=[16, 32, 32, 64], depths=[1, 1, 1, 1]
    ),
    "albert": lambda: transformer("AlbertModel", "AlbertConfig", (2, 16), 200, embedding_size=32, **BERT),
}
FULL = {
    "bert": lambda: transformer("BertModel", "BertConfig", (1, 128), 30522),
    "bert_bf16": lambda: transformer("BertModel", "BertConfig", (8, 128), 30522, torch.bfloat16),
    "gpt2": lambda: transformer("GPT2Model", "GPT2Config", (1, 128), 50257, use_cache=False),
    "llama": lambda: transformer(
        "LlamaModel",
        "LlamaConfig",
        (1, 128),
        32000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        vocab_size=32000,
        use_cache=False,
    ),
    "resnet50": lambda: transformer("ResNetModel", "ResNetConfig", (1, 3, 224, 224)),
    "vit": lambda: transformer("ViTModel", "ViTConfig", (1, 3, 224, 224)),
    "mobilenetv2": lambda: transformer("MobileNetV2Model", "MobileNetV2Config", (1, 3, 224, 224)),
}
