"""Images, videos and sounds of prompts, from the content to the rows of the text decoder. Knows no
torch and no transformers: `model/item_encoder.py` runs the processor and the encoders.
"""

from .encoder_queue import EncoderQueue
from .item import EngineItem, PlacedItem, PromptItems
from .item_table import ItemTable

__all__ = ["EncoderQueue", "EngineItem", "ItemTable", "PlacedItem", "PromptItems"]
