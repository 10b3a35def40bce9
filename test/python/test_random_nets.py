"""Random networks of convolutions, products, norms, pools, attention and what moves values between them, with weights
that several layers share, against eager. A failure prints its seed and its program.
"""

import math

import pytest
import torch

from coil_harness import CoilError, check
from program_writer import ProgramWriter

SEEDS = range(24)
CHANNELS = (1, 3, 4, 8, 16, 17, 32)


class Writer(ProgramWriter):
    """Of images [N, C, H, W] and rows of tokens [N, L, C]."""

    def make_inputs(self):
        n, side = self.random.choice((1, 1, 2, 3)), self.random.choice((5, 8, 9, 14))
        inputs = {"x0": torch.randn(n, self.random.choice(CHANNELS), side, self.random.choice((side, side + 3)))}
        if self.random.random() < 0.3:
            inputs["x1"] = torch.randn(n, 2, *inputs["x0"].shape[1:])
        return inputs

    # --- values

    def image(self):
        return self.pick(lambda t: t.dim() == 4)

    def tokens(self):
        return self.pick(lambda t: t.dim() == 3)

    def weight(self, *shape):
        """A parameter of the shape: now and then one that is there already, or a view of one."""
        known = [
            f"self.{n}{view}"
            for n, w in self.weights.items()
            for view in ("", ".transpose(0, 1)", ".mT", "[0]", "[1]", "[::2]")
            if self.seen(w, view) == shape
        ]
        if known and self.random.random() < 0.5:
            return self.random.choice(known)
        fan = math.prod(shape[1:]) if len(shape) > 1 else 1
        name, several = f"w{len(self.weights)}", self.random.random() < 0.25
        self.weights[name] = torch.nn.Parameter(
            torch.randn(*((2,) if several else ()), *shape) / math.sqrt(fan) + (1 if len(shape) == 1 else 0)
        )
        return f"self.{name}" + ("[1]" if several else "")

    @staticmethod
    def seen(w, view):
        try:
            return tuple(eval(f"w{view}", {"w": w}).shape)
        except (RuntimeError, IndexError):
            return None

    # --- layers

    def convolution(self):
        x, r = self.image(), self.random
        c, d = self.values[x].shape[1], r.choice(CHANNELS)
        groups = r.choice([g for g in range(1, 33) if c % g == 0 and d % g == 0])
        window = r.choice([(1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (1, 3), (2, 2)])
        bias = self.weight(d) if r.random() < 0.6 else "None"
        if r.random() < 0.15:
            return self.emit(
                f"F.conv_transpose2d({x}, {self.weight(c, d // groups, *window)}, {bias}, "
                f"stride={r.choice((1, 2))}, padding={r.choice((0, 1))}, groups={groups})"
            )
        return self.emit(
            f"F.conv2d({x}, {self.weight(d, c // groups, *window)}, {bias}, stride={r.choice((1, 1, 1, 2))}, "
            f"padding={r.choice((0, 1, 1, (0, 1)))}, dilation={r.choice((1, 1, 1, 2))}, groups={groups})"
        )

    def siblings(self):
        """One weight for two inputs, or two weights for one."""
        x = self.image()
        c, d = self.values[x].shape[1], self.random.choice(CHANNELS)
        window = self.random.choice([(1, 1), (3, 3)])
        w, v = self.weight(d, c, *window), self.weight(d, c, *window)
        y = self.emit(f"F.conv2d({x}, {w}, padding=1)")
        other = self.pick(lambda t: t.dim() == 4 and t.shape[1] == c)
        z = self.emit(f"F.conv2d({other}, {self.random.choice((w, v))}, padding=1)")
        if y and z:
            self.emit(f"{y} + {z}" if self.values[y].shape == self.values[z].shape else f"{z} * 0.5")

    def norm(self):
        x = self.pick(lambda t: t.dim() in (3, 4))
        c, last = self.values[x].shape[1], self.values[x].shape[-1]
        self.emit(
            self.random.choice(
                [
                    f"F.batch_norm({x}, {self.weight(c)}, {self.weight(c)}.abs() + 0.5, {self.weight(c)}, "
                    f"{self.weight(c)})",
                    f"F.group_norm({x}, {self.random.choice([g for g in (1, 2, 4) if c % g == 0])}, "
                    f"{self.weight(c)}, {self.weight(c)})",
                    f"F.layer_norm({x}, ({last},), {self.weight(last)}, {self.weight(last)})",
                    f"F.rms_norm({x}, ({last},), {self.weight(last)})",
                    f"F.instance_norm({x})",
                    f"torch.softmax({x}, {self.random.choice((1, -1))})",
                ]
            )
        )

    def activation(self):
        x = self.pick()
        y = self.pick(lambda t: t.shape == self.values[x].shape) or x
        self.emit(
            self.random.choice(
                [
                    f"F.relu({x})",
                    f"F.silu({x})",
                    f"F.gelu({x})",
                    f"F.gelu({x}, approximate='tanh')",
                    f"F.hardswish({x})",
                    f"F.leaky_relu({x}, 0.1)",
                    f"{x}.clamp(0, 6)",
                    f"torch.sigmoid({x})",
                    f"F.hardsigmoid({x})",
                    f"F.elu({x})",
                    f"{x} + {y}",
                    f"F.relu({x} + {y})",
                    f"{x} * torch.sigmoid({y})",
                    f"{x} * 0.5 + 1",
                    f"{x} - {x}.mean((-1, -2), keepdim=True)",
                    f"{y} + {x} * 2",
                    f"torch.where({x} > 0, {x}, {y})",
                ]
            )
        )

    def pool(self):
        x = self.image()
        self.emit(
            self.random.choice(
                [
                    f"F.max_pool2d({x}, 2)",
                    f"F.max_pool2d({x}, 3, stride=1, padding=1)",
                    f"F.max_pool2d({x}, 3, 2, 1)",
                    f"F.avg_pool2d({x}, 2)",
                    f"F.avg_pool2d({x}, 3, stride=2, padding=1, count_include_pad=False)",
                    f"F.adaptive_avg_pool2d({x}, {self.random.choice((1, 2, 3))})",
                    f"F.adaptive_max_pool2d({x}, 2)",
                    f"F.interpolate({x}, scale_factor=2, mode='nearest')",
                    f"F.interpolate({x}, scale_factor=2, mode='bilinear', align_corners=False)",
                    f"F.pixel_shuffle({x}, 2)",
                    f"F.pixel_unshuffle({x}, 2)",
                    f"{x}.mean((2, 3), keepdim=True)",
                    f"{x}.amax((2, 3), keepdim=True)",
                    f"F.interpolate({x}, size=(7, 6), mode='bicubic')",
                ]
            )
        )

    def move(self):
        x = self.image()
        n, c, h, w = self.values[x].shape
        y = self.pick(lambda t: t.dim() == 4 and t.shape[0] == n and t.shape[2:] == (h, w))
        self.emit(
            self.random.choice(
                [
                    f"torch.cat([{x}, {y}], 1)",
                    f"torch.cat([{y}, {x} * 2, {x}], 1)",
                    f"{x}.chunk(2, 1)[1]",
                    f"{x}[:, {c // 2}:]",
                    f"{x}[:, ::2]",
                    f"{x}.transpose(2, 3)",
                    f"{x}.flip(3)",
                    f"{x}[:, :, ::2, 1:]",
                    f"{x}.roll(1, 2)",
                    f"F.pad({x}, (1, 0, 0, 2))",
                    f"F.pad({x}, (1, 1, 1, 1), mode='replicate')",
                    f"{x}.contiguous(memory_format=torch.channels_last)",
                    f"{x}.contiguous()",
                    f"{x}.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)",
                    f"{x}.view({n}, 2, {c // 2}, {h}, {w}).transpose(1, 2).reshape({n}, {c}, {h}, {w})",
                    f"{x}.expand(2, -1, -1, -1)",
                    f"{x}.permute(1, 0, 2, 3)",
                ]
            )
        )
        if "x1" in self.values:
            self.emit(f"x1[:, {self.random.choice((0, 1))}]")

    def to_tokens(self):
        x = self.image()
        self.emit(
            self.random.choice(
                [
                    f"{x}.flatten(2).transpose(1, 2)",
                    f"{x}.flatten(2)",
                    f"{x}.permute(0, 2, 3, 1).flatten(1, 2)",
                    f"{x}.mean(3)",
                ]
            )
        )

    def on_tokens(self):
        x = self.tokens()
        if not x:
            return self.to_tokens()
        n, length, c = self.values[x].shape
        d = self.random.choice(CHANNELS)
        heads = self.random.choice([g for g in (1, 2, 4) if c % g == 0])
        split = f"view({n}, {length}, {heads}, {c // heads}).transpose(1, 2)"
        options = [
            f"F.linear({x}, {self.weight(d, c)}, {self.weight(d)})",
            f"F.linear({x}, {self.weight(d, c)})",
            f"F.gelu(F.linear({x}, {self.weight(c, c)}, {self.weight(c)})) + {x}",
            f"{x} @ {self.weight(c, d)}",
            f"torch.bmm({x}, {x}.transpose(1, 2)) / {c}",
            f"{x}.transpose(1, 2)",
            f"torch.baddbmm({x}, {x} / {c}, {x}.mT @ {x})",
            f"{x}[:, 1:]",
            f"{x}[:, 0].unsqueeze(1)",
            f"torch.cat([{x}[:, :1], {x}], 1)",
            f"{x}.mean(1, keepdim=True)",
            f"{x}.cumsum(1) / {length}",
            f"{x}.transpose(1, 2).unsqueeze(3)",
            f"torch.einsum('nlc,nmc->nlm', {x}, {x}) / {c}",
        ]
        if self.random.random() < 0.35:
            q = self.emit(f"F.linear({x}, {self.weight(c, c)}).{split}")
            k = self.emit(f"F.linear({x}, {self.weight(c, c)}).{split}")
            if q and k:
                how = self.random.choice(
                    [
                        "",
                        ", is_causal=True",
                        f", attn_mask=torch.ones({length}, {length}, dtype=torch.bool).tril()",
                        ", scale=0.5",
                    ]
                )
                return self.emit(
                    f"F.scaled_dot_product_attention({q}, {k}, {x}.{split}{how}).transpose(1, 2).reshape({n}, "
                    f"{length}, {c})"
                )
        return self.emit(self.random.choice(options))

    def inplace(self):
        self.write_through(
            self.image(),
            ["{0}", "{0}[:, :1]", "{0}[:, :, 1:]", "{0}.permute(0, 2, 3, 1)"],
            ["add_(1)", "mul_(0.5)", "relu_()", "clamp_(min=0)", "zero_()"],
        )

    def step(self):
        self.random.choices(
            [
                self.convolution,
                self.siblings,
                self.norm,
                self.activation,
                self.pool,
                self.move,
                self.to_tokens,
                self.on_tokens,
                self.inplace,
            ],
            [7, 2, 3, 6, 2, 4, 1, 4, 1],
        )[0]()


def run(seed, length=18, **options):
    writer = Writer(seed)
    source = writer.program(length, results=4)
    with torch.no_grad():
        check(writer.module(source), tuple(writer.inputs.values()), tolerance=2e-4, decomposed=seed % 3 == 2, **options)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_net(seed):
    try:
        run(seed, settings=[f"winograd={(seed % 2 + 1) * 2}"] if seed % 4 < 2 else [])
    except (AssertionError, CoilError) as error:
        writer = Writer(seed)
        pytest.fail(f"seed {seed}:\n{writer.program(18, results=4)}\n{error}", pytrace=False)
