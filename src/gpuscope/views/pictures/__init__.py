"""Figures as static pictures for papers and pull requests: SVG and PNG, drawn by matplotlib.

One small file a sort of block; nothing here knows what a figure is about.
"""

from gpuscope.views.pictures.drawing import FIGURES, can_draw, picture, png, svg
from gpuscope.views.pictures.fonts import missing_font
from gpuscope.views.pictures.writing import check_folder, write_blocks, write_pictures

__all__ = [
    "FIGURES",
    "can_draw",
    "check_folder",
    "missing_font",
    "picture",
    "png",
    "svg",
    "write_blocks",
    "write_pictures",
]
