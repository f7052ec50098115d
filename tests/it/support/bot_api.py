"""Judges what was said to and by a stand-in of the Bot API by its published types.

Reads lines of JSON: {"method", "arguments"} of requests, {"update"} of updates, {"message"} of answers. Prints a line for each
that the types don't know; prints nothing if all is right.
"""
import json
import sys

from pydantic import ValidationError
from aiogram import methods, types


def unknown(value, path):
    """Fields that no type has: the types take them silently."""
    if isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from unknown(item, f"{path}[{number}]")
        return
    fields = getattr(type(value), "model_fields", None)
    if fields is None:
        return
    for name in getattr(value, "model_extra", None) or {}:
        yield f"{path}.{name}"
    for name in fields:
        yield from unknown(getattr(value, name), f"{path}.{name}")


def judge(model, value, what):
    try:
        read = model.model_validate(value)
    except ValidationError as e:
        return [f"{what}: {error['loc']}: {error['msg']}" for error in e.errors()]
    return [f"{what}: {field} is not known" for field in unknown(read, what)]


def one(said):
    if "update" in said:
        return judge(types.Update, said["update"], "update")
    if "message" in said:
        return judge(types.Message, said["message"], "message")
    name = said["method"]
    method = getattr(methods, name[0].upper() + name[1:], None)
    if method is None:
        return [f"there is no method {name}"]
    arguments = said["arguments"] or {}
    fields = {field.alias or key for key, field in method.model_fields.items()} | set(method.model_fields)
    strange = [f"{name}.{key} is not known" for key in arguments if key not in fields]
    return strange + judge(method, arguments, name)


for line in sys.stdin:
    for wrong in one(json.loads(line)):
        print(wrong)
