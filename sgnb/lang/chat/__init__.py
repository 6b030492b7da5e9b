"""Chat templates, tools and reasoning."""

from .template import (
    PLAIN,
    ROLES,
    ChatTemplate,
    Messages,
    Role,
    TemplateError,
    from_render,
    with_tools,
)

__all__ = [
    "PLAIN",
    "ROLES",
    "ChatTemplate",
    "Messages",
    "Role",
    "TemplateError",
    "from_render",
    "with_tools",
]
