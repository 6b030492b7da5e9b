"""Images, videos and sounds as immutable values, read from files and arrays with limits.

Files are untrusted data: formats are allowed by content, sizes are checked before decoding,
metadata is dropped. Imports no torch and no other part of sgnb except `errors`.
"""

from .file_limits import with_article
from .items import Audio, Image, MediaItem, MediaKind, Video
from .readers import read_audio, read_image, read_video
from .saved_items import from_plain, png, to_plain, wav
from .thumbnails import thumbnail

__all__ = [
    "Audio",
    "Image",
    "MediaItem",
    "MediaKind",
    "Video",
    "from_plain",
    "png",
    "read_audio",
    "read_image",
    "read_video",
    "thumbnail",
    "to_plain",
    "wav",
    "with_article",
]
