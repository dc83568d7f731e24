#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Pillow and torchvision make of small images: written beside this file, with the images.

    python make.py [FOLDER OF HYMENOPTERA]     needs Pillow, numpy, torch, torchvision

Pixels are kept as the CRC-32 of RGB bytes, row by row. With a folder, hymenoptera.json gets those of its photographs.
"""
import json
import pathlib
import struct
import sys
import zlib

import numpy as np
import PIL.Image
import torch
import torchvision
import torchvision.transforms.functional as F

HERE = pathlib.Path(__file__).parent
WIDTH, HEIGHT = 97, 61


def crc(array):
    return zlib.crc32(np.ascontiguousarray(array).tobytes())


def picture():
    """Slopes, waves and a few hard edges: all that resampling and chroma smoothing can get wrong."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH].astype(float)
    red = 255 * x / WIDTH
    green = 127 + 127 * np.sin(x / 5 + y / 9)
    blue = np.where((x // 16 + y // 16) % 2, 230, 20 + y)
    return np.stack([red, green, blue], -1).clip(0, 255).astype(np.uint8)


def write_interlaced(path, pixels):
    """Adam7, which Pillow reads but does not write."""
    data = b""
    for left, top, step_x, step_y in [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]:
        for row in pixels[top::step_y, left::step_x]:
            if len(row):
                data += b"\0" + row.tobytes()
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 2, 0, 0, 1)), (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        for kind, body in chunks:
            file.write(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)))


def write_images():
    rgb = picture()
    image = PIL.Image.fromarray(rgb)
    grey = image.convert("L")
    alpha = PIL.Image.fromarray((rgb[..., 0] // 2 + 60).astype(np.uint8))
    for name, options in {"444": {"subsampling": 0}, "422": {"subsampling": 1}, "420": {"subsampling": 2},
                          "progressive": {"subsampling": 2, "progressive": True}, "restarts": {"subsampling": 2, "restart_marker_blocks": 3}}.items():
        image.save(HERE / f"{name}.jpg", quality=90, **options)
    grey.save(HERE / "grey.jpg", quality=90)
    image.convert("CMYK").save(HERE / "cmyk.jpg", quality=90)
    image.save(HERE / "rgb.png")
    grey.save(HERE / "grey.png")
    PIL.Image.merge("RGBA", [*image.split(), alpha]).save(HERE / "rgba.png")
    PIL.Image.merge("LA", [grey, alpha]).save(HERE / "grey_alpha.png")
    palette = image.quantize(16)
    palette.save(HERE / "palette.png", transparency=3)
    image.convert("1").save(HERE / "one_bit.png")
    write_interlaced(HERE / "interlaced.png", rgb)
    return ["444.jpg", "422.jpg", "420.jpg", "progressive.jpg", "restarts.jpg", "grey.jpg", "cmyk.jpg", "rgb.png", "grey.png", "rgba.png",
            "grey_alpha.png", "palette.png", "one_bit.png", "interlaced.png"]


def decoded(path):
    return np.asarray(PIL.Image.open(path).convert("RGB"))


def resized_cases(image):
    for width, height in [(64, 64), (32, 32), (7, 5), (1, 1), (97, 20), (20, 61), (150, 200), (96, 62), (300, 10)]:
        yield {"area": [0, 0, WIDTH, HEIGHT], "width": width, "height": height,
               "crc": crc(image.resize((width, height), PIL.Image.BILINEAR))}
    for left, top, wide, high in [(3, 5, 40, 50), (96, 60, 1, 1), (10, 0, 87, 2), (50, 7, 33, 29)]:
        crop = F.resized_crop(image, top, left, high, wide, [24, 24], F.InterpolationMode.BILINEAR)
        yield {"area": [left, top, wide, high], "width": 24, "height": 24, "crc": crc(crop)}


def transform_cases(image):
    """By torchvision's own classes, where nothing is drawn."""
    import torchvision.transforms as T
    for text, transform in [("resize(40)", T.Resize(40)), ("resize(30, 50)", T.Resize((30, 50))), ("center_crop(32)", T.CenterCrop(32)),
                            ("center_crop(101, 33)", T.CenterCrop((101, 33))), ("center_crop(64, 128)", T.CenterCrop((64, 128)))]:
        out = transform(image)
        yield {"list": [text], "width": out.width, "height": out.height, "crc": crc(out)}
    out = T.Compose([T.Resize(72), T.CenterCrop(64)])(image)
    yield {"list": ["resize(72)", "center_crop(64)"], "width": out.width, "height": out.height, "crc": crc(out)}


def crop_means():
    """Of torchvision's random resized crops in 500 x 400 pixels."""
    import torchvision.transforms as T
    blank = torch.zeros(3, 400, 500)
    drawn = np.array([T.RandomResizedCrop.get_params(blank, (0.08, 1.0), (3 / 4, 4 / 3))[2:] for _ in range(200000)], dtype=float)
    return {"area": float((drawn[:, 0] * drawn[:, 1]).mean() / 200000), "log_ratio": float(np.log(drawn[:, 1] / drawn[:, 0]).mean())}


def cutmix_own():
    """The mean share that torchvision's CutMix leaves of 40 x 30 pixels: with ones among zeros, what stays is counted."""
    import torchvision.transforms.v2 as T
    cutmix = T.CutMix(num_classes=2)
    batch = torch.stack([torch.zeros(1, 30, 40), torch.ones(1, 30, 40)])
    return sum(float(1 - cutmix(batch, torch.tensor([0, 1]))[0][0].mean()) for _ in range(20000)) / 20000


def colour_cases(tensor):
    for name in ["brightness", "contrast", "saturation"]:
        for factor in [0.0, 0.3, 0.6137, 1.0, 1.41, 2.5]:
            yield {"name": name, "factor": factor, "crc": crc(getattr(F, f"adjust_{name}")(tensor, factor).permute(1, 2, 0).numpy())}
    for factor in [-0.5, -0.21, -0.01, 0.0, 0.1, 0.37, 0.5]:
        yield {"name": "hue", "factor": factor, "crc": crc(F.adjust_hue(tensor, factor).permute(1, 2, 0).numpy())}


def main():
    names = write_images()
    image = PIL.Image.fromarray(picture())
    golden = {"made_with": {"pillow": PIL.__version__, "torch": torch.__version__, "torchvision": torchvision.__version__},
              "decoded": [{"file": name, "crc": crc(decoded(HERE / name))} for name in names],
              "resized": list(resized_cases(image)),
              "resized_grey_crc": crc(image.convert("L").resize((40, 30), PIL.Image.BILINEAR)),
              "crop_means": crop_means(), "cutmix_own": cutmix_own(),
              "transformed": list(transform_cases(image)),
              "coloured": list(colour_cases(torch.from_numpy(picture()).permute(2, 0, 1)))}
    lines = json.dumps(golden).replace('{"file"', '\n  {"file"').replace('{"area"', '\n  {"area"').replace('{"list"', '\n  {"list"')
    (HERE / "golden.json").write_text(lines.replace('{"name"', '\n  {"name"') + "\n")
    if len(sys.argv) > 1:
        root = pathlib.Path(sys.argv[1])
        photographs = {str(path.relative_to(root)): crc(decoded(path)) for path in sorted(root.glob("*/*/*.jpg"))}
        small = {str(path.relative_to(root)): crc(PIL.Image.open(path).convert("RGB").resize((64, 64), PIL.Image.BILINEAR))
                 for path in sorted(root.glob("val/*/*.jpg"))}
        text = json.dumps({"decoded": photographs, "resized_to_64": small}, indent=0)
        (HERE / "hymenoptera.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
