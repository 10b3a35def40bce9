"""Programs of `user_harness.py`: images, boxes, cameras, point clouds, meshes."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from user_harness import program

R = torch.randn


def boxes_of(n):
    corner = torch.rand(n, 2) * 80
    return torch.cat([corner, corner + 5 + torch.rand(n, 2) * 20], 1)


def iou_matrix(a, b):
    area = lambda x: (x[:, 2] - x[:, 0]).clamp(min=0) * (x[:, 3] - x[:, 1]).clamp(min=0)
    low, high = torch.max(a[:, None, :2], b[None, :, :2]), torch.min(a[:, None, 2:], b[None, :, 2:])
    inner = (high - low).clamp_(min=0).prod(-1)
    return inner / (area(a)[:, None] + area(b)[None] - inner)


@program(lambda: (boxes_of(12), torch.rand(12)), lambda: (boxes_of(17), torch.rand(17)))
def nms_of_fixed_rounds(boxes, scores):
    order = scores.argsort(descending=True)
    boxes = boxes[order]
    overlaps = torch.triu(iou_matrix(boxes, boxes) > 0.3, diagonal=1)
    keep = torch.ones_like(scores, dtype=torch.bool)
    for i in range(10):
        keep &= ~(overlaps[i] & keep[i])
    return order[keep], keep


@program(lambda: (R(2, 9 * 4, 5, 6), [5, 6]), lambda: (R(3, 9 * 4, 7, 4), [7, 4]), grad=True, package=False)
def anchors_decoded(deltas, size):
    height, width = size
    ratios, scales = torch.tensor([0.5, 1.0, 2.0]), torch.tensor([8.0, 16.0, 32.0])
    h, w = (ratios.sqrt()[:, None] * scales).reshape(-1), (scales / ratios.sqrt()[:, None]).reshape(-1)
    base = torch.stack([-w, -h, w, h], 1).div(2).round()
    ys, xs = torch.meshgrid(torch.arange(height) * 16, torch.arange(width) * 16, indexing="ij")
    shifts = torch.stack([xs, ys, xs, ys], -1).reshape(-1, 1, 4)
    anchors = (shifts + base).view(-1, 4)
    d = deltas.view(deltas.shape[0], 9, 4, height, width).permute(0, 3, 4, 1, 2).reshape(deltas.shape[0], -1, 4)
    sizes, centers = anchors[:, 2:] - anchors[:, :2], (anchors[:, 2:] + anchors[:, :2]) * 0.5
    c, s = d[..., :2] * sizes + centers, d[..., 2:].clamp(max=math.log(1000 / 16)).exp() * sizes
    return torch.cat([c - 0.5 * s, c + 0.5 * s], -1).clamp(0, 100)


@program(lambda: (R(2, 255, 4, 4),), lambda: (R(1, 255, 6, 5),))
def yolo_head(x):
    n, _, h, w = x.shape
    x = x.view(n, 3, 85, h, w).permute(0, 1, 3, 4, 2).contiguous()
    y = x.sigmoid()
    gy, gx = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    grid = torch.stack((gx, gy), 2).view(1, 1, h, w, 2).float()
    anchor = torch.tensor([[10.0, 13], [16, 30], [33, 23]]).view(1, 3, 1, 1, 2)
    y[..., 0:2] = (y[..., 0:2] * 2.0 - 0.5 + grid) * 8
    y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * anchor
    return y.view(n, -1, 85)


@program(lambda: (R(1, 8, 12, 12), boxes_of(5) / 9), lambda: (R(1, 8, 14, 11), boxes_of(3) / 9), grad=True)
def roi_align_by_grid_sample(features, boxes):
    n, size = boxes.shape[0], torch.tensor([features.shape[-1], features.shape[-2]], dtype=features.dtype)
    step = (torch.arange(4) + 0.5) / 4
    gy, gx = torch.meshgrid(step, step, indexing="ij")
    unit = torch.stack([gx, gy], -1)
    grid = boxes[:, None, None, :2] + unit * (boxes[:, None, None, 2:] - boxes[:, None, None, :2])
    grid = grid / size * 2 - 1
    return F.grid_sample(features.expand(n, -1, -1, -1), grid, align_corners=False, padding_mode="border")


@program(lambda: (torch.randint(0, 256, (2, 9, 10, 3), dtype=torch.uint8),), bf16=False)
def uint8_images_normalized(images):
    x = images.permute(0, 3, 1, 2).float() / 255
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = (x - mean[:, None, None]) / std[:, None, None]
    small = F.interpolate(x, size=(6, 6), mode="bilinear", antialias=True, align_corners=False)
    back = (small * 255).clamp(0, 255).to(torch.uint8)
    return small, back, images[..., 0] + images[..., 1], images.float().mean((1, 2)).round().to(torch.uint8)


@program(lambda: (torch.randint(0, 256, (3, 16, 16), dtype=torch.uint8), 3))
def histogram_equalized(image, bins_shift):
    out = []
    for channel in image:
        counts = torch.bincount(channel.flatten().long(), minlength=256)
        total = counts.cumsum(0)
        first = total[total > 0].min()
        table = ((total - first) * 255 // (total[-1] - first).clamp(min=1)).clamp(0, 255).to(torch.uint8)
        out.append(table[channel.long()] >> bins_shift)
    return torch.stack(out)


@program(lambda: (torch.rand(2, 3, 12, 10),), lambda: (torch.rand(2, 3, 9, 16),), grad=True)
def ssim(x):
    axis = torch.arange(7, dtype=torch.float32) - 3
    g = (-(axis**2) / 4.5).exp()
    window = (g[:, None] * g[None] / g.sum() ** 2).expand(3, 1, 7, 7).to(x.dtype)
    y = x.flip(-1) * 0.9
    blur = lambda t: F.conv2d(t, window, padding=3, groups=3)
    mx, my = blur(x), blur(y)
    vx, vy, c = blur(x * x) - mx**2, blur(y * y) - my**2, blur(x * y) - mx * my
    return ((2 * mx * my + 1e-4) * (2 * c + 9e-4) / ((mx**2 + my**2 + 1e-4) * (vx + vy + 9e-4))).mean((1, 2, 3))


@program(lambda: (R(4, 3), R(4, 3)), lambda: (R(6, 3), R(6, 3)), grad=True)
def rodrigues_and_reprojection(rotations, points):
    theta = rotations.norm(dim=-1, keepdim=True).clamp(min=1e-8)
    k = rotations / theta
    z = torch.zeros_like(k[:, 0])
    K = torch.stack([z, -k[:, 2], k[:, 1], k[:, 2], z, -k[:, 0], -k[:, 1], k[:, 0], z], -1).view(-1, 3, 3)
    s, c = theta.sin()[..., None], theta.cos()[..., None]
    rot = torch.eye(3) + s * K + (1 - c) * (K @ K)
    p = torch.einsum("nij,nj->ni", rot, points) + torch.tensor([0.0, 0.0, 5.0])
    uv = p[:, :2] / p[:, 2:].clamp(min=0.1) * 500 + 320
    return uv, rot, rot.diagonal(dim1=-2, dim2=-1).sum(-1)


@program(lambda: (R(9, 3), R(3, 3)), lambda: (R(13, 3), R(3, 3)), tolerance=1e-3)
def procrustes(points, mixing):
    target = points @ mixing.T + 0.5
    a, b = points - points.mean(0), target - target.mean(0)
    u, s, vh = torch.linalg.svd(a.T @ b)
    d = torch.sign(torch.linalg.det(vh.T @ u.T))
    flip = torch.diag(torch.stack([torch.ones_like(d), torch.ones_like(d), d]))
    rot = vh.mT @ flip @ u.mT
    scale = (s * flip.diagonal()).sum() / a.square().sum()
    return rot, scale, target.mean(0) - scale * rot @ points.mean(0)


@program(lambda: (R(2, 20, 3), R(2, 5, 3)), lambda: (R(1, 31, 3), R(1, 7, 3)), grad=True)
def pointnet_grouping(cloud, centers):
    distance = torch.cdist(centers, cloud)
    near, index = distance.topk(4, largest=False)
    grouped = torch.gather(
        cloud[:, None].expand(-1, centers.shape[1], -1, -1), 2, index[..., None].expand(-1, -1, -1, 3)
    )
    local = grouped - centers[:, :, None]
    return local.square().sum(-1).amax(-1), near.exp().neg().mean(), local.amax(2)


@program(lambda: (R(2, 16, 3),), lambda: (R(3, 20, 3),))
def farthest_points(cloud):
    n = cloud.shape[0]
    chosen = torch.zeros(n, 5, dtype=torch.long)
    distance = torch.full(cloud.shape[:2], float("inf"))
    last = torch.zeros(n, dtype=torch.long)
    rows = torch.arange(n)
    for i in range(5):
        chosen[:, i] = last
        d = (cloud - cloud[rows, last][:, None]).pow(2).sum(-1)
        distance = torch.minimum(distance, d)
        last = distance.max(-1)[1]
    return chosen, distance, cloud[rows[:, None], chosen]


@program(lambda: (R(8, 3), torch.tensor([[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 0], [1, 3, 5]])), grad=True)
def mesh_vertex_normals(vertices, faces):
    a, b, c = vertices[faces].unbind(1)
    normal = torch.linalg.cross(b - a, c - a)
    area = normal.norm(dim=-1) / 2
    out = torch.zeros_like(vertices).index_add_(0, faces.flatten(), normal.repeat_interleave(3, 0))
    degree = torch.zeros(len(vertices), dtype=torch.int64).scatter_add_(
        0, faces.flatten(), torch.ones(15, dtype=torch.int64)
    )
    return F.normalize(out, dim=-1, eps=1e-6), area.sum(), degree


class Rays(NamedTuple):
    origin: torch.Tensor
    direction: torch.Tensor


@program(
    lambda: (Rays(R(6, 3), R(6, 3)), 2.0, 6.0), lambda: (Rays(R(9, 3), R(9, 3)), 2.0, 6.0), grad=True, package=False
)
class NerfRendering(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3 + 3 * 2 * 4, 24), nn.ReLU(), nn.Linear(24, 4))
        self.register_buffer("frequencies", 2.0 ** torch.arange(4), persistent=False)

    def forward(self, rays, near, far):
        t = torch.linspace(near, far, 8)
        p = rays.origin[:, None] + rays.direction[:, None] * t[:, None]
        angles = (p[..., None] * self.frequencies).flatten(-2)
        out = self.net(torch.cat([p, angles.sin(), angles.cos()], -1))
        sigma, rgb = F.relu(out[..., 0]), out[..., 1:].sigmoid()
        delta = torch.cat([t[1:] - t[:-1], torch.full((1,), 1e10)])
        alpha = 1 - torch.exp(-sigma * delta)
        through = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1), -1)[:, :-1]
        weights = alpha * through
        return {"rgb": (weights[..., None] * rgb).sum(-2), "depth": (weights * t).sum(-1), "weights": weights}


@program(lambda: (R(2, 3, 8, 8), R(2, 3, 8, 8)), lambda: (R(1, 3, 6, 10), R(1, 3, 6, 10)), grad=True, bf16=True)
class OpticalFlowCorrelation(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Conv2d(3, 6, 3, padding=1)

    def forward(self, a, b):
        a, b = self.encode(a), self.encode(b)
        n, c, h, w = a.shape
        volume = (a.flatten(2).transpose(1, 2) @ b.flatten(2)).view(n, h, w, h, w) / c**0.5
        soft = volume.flatten(3).softmax(-1).view_as(volume)
        ys, xs = torch.arange(h, dtype=a.dtype), torch.arange(w, dtype=a.dtype)
        flow = torch.stack([(soft.sum(-2) * xs).sum(-1) - xs, (soft.sum(-1) * ys).sum(-1) - ys[:, None]], 1)
        pad = F.pad(b, (2, 2, 2, 2))
        local = torch.stack([(a * pad[:, :, i : i + h, j : j + w]).mean(1) for i in range(5) for j in range(5)], 1)
        return flow, local


@program(lambda: (R(2, 4, 8, 8), torch.rand(2, 1, 8, 8)), lambda: (R(1, 4, 10, 6), torch.rand(1, 1, 10, 6)), grad=True)
def warp_by_depth(image, depth):
    n, _, h, w = image.shape
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
    grid = torch.stack([xs, ys], -1).expand(n, h, w, 2).clone()
    grid[..., 0] += 0.1 / (depth[:, 0] + 0.5)
    out = F.grid_sample(image, grid, mode="bicubic", padding_mode="reflection", align_corners=True)
    valid = (grid.abs() <= 1).all(-1)
    return out * valid.unsqueeze(1), valid


@program(lambda: (torch.rand(1, 1, 10, 12) > 0.5,), lambda: (torch.rand(2, 1, 9, 8) > 0.5,))
def morphology_and_distance(mask):
    m = mask.float()
    dilated = F.max_pool2d(m, 3, 1, 1)
    eroded = -F.max_pool2d(-m, 3, 1, 1)
    edge = (dilated - eroded).bool() & mask
    distance = torch.where(mask, torch.inf, 0.0)
    for _ in range(3):
        distance = torch.minimum(distance, -F.max_pool2d(-distance, 3, 1, 1) + 1)
    return edge, distance, edge.sum((1, 2, 3)), edge.flatten(1).any(1)


@program(lambda: (R(2, 8, 6, 6), R(2, 18, 6, 6)), grad=True)
class DeformableConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(R(4, 8, 3, 3))

    def forward(self, x, offset):
        n, c, h, w = x.shape
        ys, xs = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        columns = []
        for k in range(9):
            py = ys + k // 3 - 1 + offset[:, 2 * k]
            px = xs + k % 3 - 1 + offset[:, 2 * k + 1]
            y0, x0 = py.floor(), px.floor()
            total = 0
            for dy in (0, 1):
                for dx in (0, 1):
                    yy, xx = y0 + dy, x0 + dx
                    weight = (1 - (py - yy).abs()) * (1 - (px - xx).abs())
                    inside = (yy >= 0) & (yy < h) & (xx >= 0) & (xx < w)
                    index = (yy.clamp(0, h - 1) * w + xx.clamp(0, w - 1)).long().flatten(1)
                    value = x.flatten(2).gather(2, index[:, None].expand(-1, c, -1)).view(n, c, h, w)
                    total = total + value * (weight * inside)[:, None]
            columns.append(total)
        return torch.einsum("nckhw,ock->nohw", torch.stack(columns, 2), self.weight.flatten(2))


@program(lambda: (R(2, 3, 16, 16),), lambda: (R(3, 3, 16, 16),), grad=True, bf16=True)
class CapsuleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.primary = nn.Conv2d(3, 16, 5, stride=3)
        self.weight = nn.Parameter(R(1, 32, 5, 6, 8) * 0.1)

    @staticmethod
    def squash(x):
        n = x.square().sum(-1, keepdim=True)
        return n / (1 + n) * x / (n.sqrt() + 1e-8)

    def forward(self, x):
        u = self.squash(self.primary(x).view(x.size(0), 32, 8))
        hat = (self.weight @ u[:, :, None, :, None]).squeeze(-1)
        b = torch.zeros(*hat.shape[:3], 1, dtype=x.dtype)
        for i in range(3):
            c = b.softmax(2)
            v = self.squash((c * (hat if i == 2 else hat.detach())).sum(1, keepdim=True))
            if i < 2:
                b = b + (hat.detach() * v).sum(-1, keepdim=True)
        return v.squeeze(1).norm(dim=-1), v


@program(lambda: (R(2, 4, 12, 12),), lambda: (R(2, 4, 16, 8),), grad=True)
class SwinWindows(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.table = nn.Linear(4, 12), nn.Parameter(R(49, 2) * 0.1)
        c = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        d = c[:, :, None] - c[:, None] + 3
        self.register_buffer("index", d[0] * 7 + d[1])

    def forward(self, x):
        n, c, h, w = x.shape
        x = torch.roll(x, (-2, -2), (2, 3)).permute(0, 2, 3, 1)
        x = x.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(x).view(-1, 16, 3, 2, 2).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(16, 16, 2).permute(2, 0, 1).contiguous()
        region = torch.zeros(1, h, w, 1)
        count = 0
        for ys in (slice(0, -4), slice(-4, -2), slice(-2, None)):
            for xs in (slice(0, -4), slice(-4, -2), slice(-2, None)):
                region[:, ys, xs] = count
                count += 1
        region = region.view(1, h // 4, 4, w // 4, 4, 1).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16)
        mask = (region[:, None] - region[:, :, None]).ne(0).float() * -100
        a = (q @ k.mT) * 2**-0.5 + bias
        a = a.view(n, -1, 2, 16, 16) + mask[:, None]
        y = (a.view(-1, 2, 16, 16).softmax(-1) @ v).transpose(1, 2).reshape(n, h // 4, w // 4, 4, 4, c)
        return torch.roll(y.permute(0, 5, 1, 3, 2, 4).reshape(n, c, h, w), (2, 2), (2, 3))
