"""The models that the benchmarks time: name -> a function that makes (module, args). Random weights from the default
configurations of `transformers`.
"""

import torch
from torch import nn


class Last(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).last_hidden_state


def transformer(model, config, shape, vocab=None, dtype=torch.float32, **settings):
    import transformers

    torch.manual_seed(0)
    module = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()
    return Last(module).to(dtype), ((torch.randint(0, vocab, shape) if vocab else torch.randn(shape)),)


MODELS = {
    "bert_1x128": lambda: transformer("BertModel", "BertConfig", (1, 128), 30522),
    "bert_8x128_bf16": lambda: transformer("BertModel", "BertConfig", (8, 128), 30522, torch.bfloat16),
    "gpt2_1x128": lambda: transformer("GPT2Model", "GPT2Config", (1, 128), 50257, use_cache=False),
    "resnet50_1": lambda: transformer("ResNetModel", "ResNetConfig", (1, 3, 224, 224)),
    "vit_1": lambda: transformer("ViTModel", "ViTConfig", (1, 3, 224, 224)),
    "mobilenetv2_1": lambda: transformer("MobileNetV2Model", "MobileNetV2Config", (1, 3, 224, 224)),
}
