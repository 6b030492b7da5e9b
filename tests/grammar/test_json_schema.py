"""Tables: which texts a schema lets through, which not, which schemas are refused and how."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from sgnb.errors import GrammarError
from sgnb.grammar.automaton.automaton import build
from sgnb.grammar.schema.disjuncts import LOGIC
from sgnb.grammar.schema.keyword_reader import READERS
from sgnb.grammar.schema.keywords import ENFORCED, KEYWORDS
from sgnb.grammar.schema.schema_lint import lint_schema
from sgnb.grammar.schema.translate import translate
from sgnb.grammar.syntax import Reference, Rules, Source
from tools.json_schema import document

from .oracle import matches

INT, S, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}


def members(*required, **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


TABLE = {
    "required": (
        members("a", a=INT, b=S),
        ['{"a":1}', '{"a":-12,"b":"x"}'],
        ["{}", '{"b":"x"}', '{"a":1,}', '{"a":1,"c":1}'],
    ),
    "order": (
        members("b", a=NULL, b=NULL),
        ['{"a":null,"b":null}', '{"b":null}'],
        ['{"b":null,"a":null}', '{"a":null}'],
    ),
    "all_optional": (
        members(a=NULL, b=NULL, c=NULL),
        [
            "{}",
            '{"a":null}',
            '{"c":null}',
            '{"a":null,"c":null}',
            '{"b":null,"c":null}',
            '{"a":null,"b":null,"c":null}',
        ],
        [
            '{"b":null,"a":null}',
            '{,"a":null}',
            '{"a":null"b":null}',
            '{"a":null,}',
            '{"a":null,"a":null}',
        ],
    ),
    "no_blanks": (
        members("a", a=INT),
        ['{"a":1}'],
        ['{ "a":1}', '{"a": 1}', '{"a":1} ', ' {"a":1}'],
    ),
    "strings": (
        S,
        ['""', '"é😀"', r'"\"\\\b\f\n\r\t"', '"/"', '"\x7f"'],
        ['"', '"\n"', r'"\/"', r'"\u00e9"', '"""', r'"\x"', r'"\u0001"', "'a'"],
    ),
    "lengths": (
        {"type": "string", "minLength": 1, "maxLength": 2},
        ['"a"', r'"\n"', '"😀é"'],
        ['""', '"abc"', r'"\n\n\n"'],
    ),
    "pattern_found": (
        {"type": "string", "pattern": "b+"},
        ['"b"', '"abbc"', r'"\nb"'],
        ['""', '"ac"'],
    ),
    "pattern_whole": (
        {"type": "string", "pattern": "^[a-c]+$"},
        ['"abc"'],
        ['"abd"', '""', r'"a\n"'],
    ),
    "pattern_length": (
        {"type": "string", "pattern": "^[a-c]+$", "maxLength": 2},
        ['"a"', '"ab"'],
        ['"abc"', '""'],
    ),
    "pattern_controls": (
        {"type": "string", "pattern": "^[\x01\x1f]$"},
        [r'"\u0001"', r'"\u001f"'],
        [r'"\u001F"', '"\x01"'],
    ),
    "two_patterns": (
        {"allOf": [{"pattern": "^a"}, {"pattern": "z$"}]},
        ['"az"', '"a-z"'],
        ['"a"', '"z"', "1"],
    ),
    "integer": (
        INT,
        ["0", "-1", "123456789012345678"],
        ["-0", "01", "1.0", "1e3", "+1", "1234567890123456789", ""],
    ),
    "positive_number": (
        {"type": "number", "exclusiveMinimum": 0},
        ["0.5", "1e-30", "1e30"],
        ["0", "-1e30", "-0.5"],
    ),
    "far_bounds": (
        {"type": "number", "minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308},
        ["1.5e300", "-9e307", "0"],
        ["-0"],
    ),
    "far_integers": (
        {"type": "integer", "minimum": -(10**200), "maximum": 10**200},
        ["123456789012345678", "0"],
        ["1234567890123456789"],
    ),
    "integer_range": (
        {"type": "integer", "minimum": -3, "exclusiveMaximum": 12},
        ["-3", "0", "9", "11"],
        ["-4", "12", "-0"],
    ),
    "number": (
        {"type": "number"},
        ["0", "0.0", "-0.5", "1.50", "10", "0.30000000000000004", "1e3", "-1.5E-07", "6.02e+23"],
        ["-0", "-0.0", ".5", "1.", "00.1", "0e1", "10e1", "1e308", "1e", "1.e5"],
    ),
    "number_range": (
        {"type": "number", "minimum": 0.25, "exclusiveMaximum": 1},
        ["0.25", "0.250", "0.9999", "0.3"],
        ["0.2", "0.24999", "0.2499999", "1", "1.0", "0"],
    ),
    "half_steps": (
        {"type": "number", "multipleOf": 0.5},
        ["0", "0.5", "-3.0", "12.5"],
        ["0.25", "0.55"],
    ),
    "cents": ({"type": "number", "multipleOf": 0.01}, ["0.07", "1.1", "3"], ["0.075"]),
    "fives": ({"type": "integer", "multipleOf": 5}, ["0", "5", "-10", "125"], ["1", "12", "-0"]),
    "threes_listed": (
        {"type": "integer", "multipleOf": 3, "minimum": 1, "maximum": 10},
        ["3", "6", "9"],
        ["0", "4", "12"],
    ),
    "int32": (
        {"type": "integer", "format": "int32"},
        ["2147483647", "-2147483648"],
        ["2147483648"],
    ),
    "enum": (
        {"enum": ["a", 1, 1.5, None, [1], {"k": "\n"}]},
        ['"a"', "1", "1.5", "null", "[1]", r'{"k":"\n"}'],
        ["a", "2"],
    ),
    "enum_and_type": (
        {"enum": ["a", 1, True], "type": ["string", "boolean"]},
        ['"a"', "true"],
        ["1"],
    ),
    "enum_and_pattern": ({"enum": ["ab", "cd"], "pattern": "^a"}, ['"ab"'], ['"cd"']),
    "types": ({"type": ["integer", "null"], "minimum": 5}, ["5", "null"], ["4", '"5"']),
    "untyped": ({"minLength": 2}, ['"ab"'], ['"a"', "1"]),
    "anything": (True, ["1", '{"a":[1,{}]}', "[]", '"x"', "-0.5", "null"], ["{", "[1,]", '{"a"}']),
    "open_object": ({"type": "object"}, ["{}", '{"x":[1]}'], ["[]"]),
    "map": (
        {"type": "object", "additionalProperties": INT},
        ["{}", '{"":1}', '{"x":1,"y":2}'],
        ['{"x":"1"}', '{"x":1,}'],
    ),
    "extra_after": (
        members("a", a=NULL) | {"additionalProperties": INT},
        ['{"a":null}', '{"a":null,"b":1}', '{"a":null,"aa":1,"c":2}'],
        ['{"b":1}', '{"a":null,"a":1}', '{"b":1,"a":null}'],
    ),
    "patterns_of_names": (
        {
            "type": "object",
            "patternProperties": {"^x": INT, "z$": NULL},
            "additionalProperties": False,
        },
        ["{}", '{"x":1}', '{"z":null,"xa":3}'],
        ['{"xz":1}', '{"xz":null}', '{"a":1}'],
    ),
    "names": (
        {"type": "object", "propertyNames": {"pattern": "^[ab]$"}, "additionalProperties": INT},
        ['{"a":1}'],
        ['{"c":1}'],
    ),
    "listed_names": (
        {"propertyNames": {"enum": ["p", "q"]}, "additionalProperties": INT, "minProperties": 1},
        ['{"p":1}', '{"q":2}', '{"p":1,"q":2}'],
        ["{}", '{"r":1}', '{"q":1,"p":2}'],
    ),
    "counted": (
        members(a=NULL, b=NULL, c=NULL) | {"minProperties": 2, "maxProperties": 2},
        ['{"a":null,"b":null}', '{"b":null,"c":null}'],
        ["{}", '{"a":null}', '{"a":null,"b":null,"c":null}'],
    ),
    "extra_counted": (
        {"type": "object", "additionalProperties": NULL, "minProperties": 1, "maxProperties": 2},
        ['{"a":null}', '{"a":null,"b":null}'],
        ["{}", '{"a":null,"b":null,"c":null}'],
    ),
    "array": (
        {"type": "array", "items": INT, "minItems": 1, "maxItems": 2},
        ["[1]", "[1,2]"],
        ["[]", "[1,2,3]", "[1,]", "[,1]"],
    ),
    "empty_array": ({"type": "array", "items": INT, "maxItems": 0}, ["[]"], ["[1]"]),
    "tuple": (
        {"type": "array", "prefixItems": [INT, S]},
        ["[]", "[1]", '[1,"a"]'],
        ['["a"]', '[1,"a",2]'],
    ),
    "tuple_tail": (
        {"type": "array", "prefixItems": [INT], "items": S, "minItems": 2, "maxItems": 3},
        ['[1,"a"]', '[1,"a","b"]'],
        ["[1]", '[1,"a","b","c"]'],
    ),
    "draft07_tuple": (
        {"type": "array", "items": [INT, S], "additionalItems": NULL, "minItems": 2},
        ['[1,"a",null]'],
        ["[1]"],
    ),
    "contains": (
        {"type": "array", "items": INT, "contains": {"const": 5}},
        ["[5]", "[1,5,2]"],
        ["[]", "[1]"],
    ),
    "no_integer": (
        {"type": "number", "not": {"type": "integer"}},
        ["1.5", "-0.25", "99999.0000000001", "12345678901234.5"],
        ["1", "2.0", "130747130752992511.2", "99999999.0000000001", "0.99999999999999999", "1e5"],
    ),
    "contains_two_to_three": (
        {"items": INT, "contains": {"const": 5}, "minItems": 2, "maxItems": 3},
        ["[5,6]", "[6,5]", "[1,2,5]", "[5,5,5]"],
        ["[5]", "[1,2]", "[1,2,3]", "[1,2,3,5]"],
    ),
    "contains_two_or_more": (
        {"items": INT, "contains": {"const": 5}, "minItems": 2},
        ["[5,6]", "[1,2,3,5]"],
        ["[5]", "[1,2]", "[1,2,3]"],
    ),
    "contains_counted": (
        {"items": INT, "contains": {"minimum": 5}, "minContains": 2, "maxContains": 3},
        ["[5,6]", "[1,5,2,6,7,3]"],
        ["[]", "[5,1]", "[5,6,7,8]"],
    ),
    "contains_at_most": (
        {"items": INT, "contains": {"minimum": 5}, "minContains": 0, "maxContains": 1},
        ["[]", "[1]", "[1,5,2]", "[5]"],
        ["[5,6]", "[5,1,6]"],
    ),
    "contains_none": (
        {"items": INT, "contains": {"const": 5}, "minContains": 0, "maxContains": 0},
        ["[]", "[1,2]"],
        ["[5]", "[1,5]"],
    ),
    "contains_anything": (
        {"items": INT, "contains": {}, "minItems": 1},
        ["[1]", "[1,2]"],
        ["[]"],
    ),
    "contains_not_counted": (
        {
            "items": INT,
            "minContains": 2,
            "contains": {"const": 5},
            "not": {"contains": {"const": 1}},
        },
        ["[5,5]", "[5,2,5]"],
        ["[5]", "[5,1,5]"],
    ),
    "not_one_of": (
        {"type": "integer", "not": {"oneOf": [{"minimum": 3}, {"maximum": 6}]}},
        ["3", "6", "4"],
        ["2", "7"],
    ),
    "not_if": (
        {"type": "integer", "not": {"if": {"minimum": 3}, "then": {"maximum": 6}, "else": False}},
        ["7", "1"],
        ["3", "6"],
    ),
    "not_if_then": (
        {"type": "integer", "not": {"if": {"multipleOf": 2}, "then": {"minimum": 3}}},
        ["2", "0", "-4"],
        ["1", "4"],
    ),
    "any_of": (
        {"anyOf": [INT, {"type": "string", "maxLength": 1}]},
        ["1", '"a"'],
        ['"ab"', "null"],
    ),
    "one_of_tagged": (
        {"oneOf": [members("k", k={"const": "a"}, x=INT), members("k", k={"const": "b"}, y=INT)]},
        ['{"k":"a","x":1}', '{"k":"b"}'],
        ['{"k":"a","y":1}', '{"k":"c"}'],
    ),
    "one_of_required": (
        members(a=INT, b=INT) | {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        ['{"a":1}', '{"b":2}'],
        ["{}", '{"a":1,"b":2}'],
    ),
    "one_of_numbers": (
        {"oneOf": [{"type": "integer", "minimum": 5}, {"type": "integer", "maximum": 8}]},
        ["4", "9"],
        ["5", "8"],
    ),
    "one_of_patterns": (
        {"oneOf": [{"pattern": "^a"}, {"pattern": "b$"}], "type": "string"},
        ['"ac"', '"cb"'],
        ['"ab"', '"c"'],
    ),
    "all_of": (
        {"allOf": [members("a", a=INT, b=S), members(b={"maxLength": 1}, c=NULL)]},
        ['{"a":1,"b":"x"}'],
        ['{"a":1,"b":"xy"}'],
    ),
    "not_const": (
        {"type": "string", "maxLength": 1, "not": {"const": "x"}},
        ['"y"', '""'],
        ['"x"'],
    ),
    "not_type": (
        {"not": {"type": ["null", "object", "array"]}},
        ["1", '"a"', "true"],
        ["null", "{}", "[]"],
    ),
    "if_then_else": (
        members("c", c={"enum": ["US", "DE"]}, z=S, p=INT)
        | {
            "if": {"properties": {"c": {"const": "US"}}},
            "then": {"required": ["z"]},
            "else": {"required": ["p"]},
        },
        ['{"c":"US","z":"1"}', '{"c":"DE","p":3}', '{"c":"US","z":"1","p":2}'],
        ['{"c":"US","p":3}', '{"c":"DE","z":""}', '{"c":"US"}'],
    ),
    "dependent_required": (
        members(a=INT, b=INT) | {"dependentRequired": {"a": ["b"]}},
        ["{}", '{"b":1}', '{"a":1,"b":1}'],
        ['{"a":1}'],
    ),
    "unevaluated": (
        {"allOf": [members(a=INT)], "properties": {"b": INT}, "unevaluatedProperties": False},
        ["{}", '{"b":1}', '{"b":1,"a":2}'],
        ['{"c":1}'],
    ),
    "ref": ({"$ref": "#/$defs/x%20y", "$defs": {"x y": {"const": 1}}}, ["1"], ["2"]),
    "ref_siblings": (
        {"$ref": "#/$defs/n", "maximum": 3, "$defs": {"n": {"type": "integer", "minimum": 2}}},
        ["2", "3"],
        ["1", "4"],
    ),
    "ref_id": (
        {"$id": "https://a.b/c", "$ref": "d", "$defs": {"x": {"$id": "d", "const": 1}}},
        ["1"],
        ["2"],
    ),
    "recursive": (
        members("v", v=INT, c={"type": "array", "items": {"$ref": "#"}}),
        ['{"v":1,"c":[{"v":2},{"v":3,"c":[]}]}'],
        ['{"v":1,"c":[{}]}'],
    ),
    "dynamic": (  # the root's anchor is the outermost
        {
            "$dynamicAnchor": "node",
            "$ref": "#/$defs/tree",
            "properties": {"b": INT},
            "$defs": {
                "tree": {
                    "$id": "https://a.b/tree",
                    "$dynamicAnchor": "node",
                    "properties": {"a": {"$dynamicRef": "#node"}},
                }
            },
        },
        ["{}", '{"b":2,"a":{"b":1,"a":{}}}'],
        ['{"a":{"b":"x"}}', '{"a":1}'],
    ),
    "dynamic_alone": (
        {"items": {"$dynamicRef": "#x"}, "$defs": {"s": {"$dynamicAnchor": "x"} | S}},
        ["[]", '["a"]'],
        ["[1]"],
    ),
    "recursive_merged": (
        {
            "$defs": {"A": members(x={"$ref": "#/$defs/A", "required": ["y"]}, y=NULL)},
            "$ref": "#/$defs/A",
        },
        ["{}", '{"x":{"x":{"y":null},"y":null}}'],
        ['{"x":{}}', '{"x":{"x":{},"y":null}}'],
    ),
    "odd_keys": (members('a"b\n', **{'a"b\n': INT}), [r'{"a\"b\n":1}'], ['{"a"b\n":1}']),
    "base64": ({"type": "string", "contentEncoding": "base64"}, ['"YWI="', '""'], ['"YWI"']),
    "base64_format": ({"type": "string", "format": "base64"}, ['"YWI="', '""'], ['"YWI"']),
    "not_pattern": (
        {"type": "string", "not": {"pattern": r"^\d$"}},
        ['"a"', '"12"'],
        ['"1"', '"٣"', r'"1\n"'],
    ),
    "other_names": (
        {"type": "object", "patternProperties": {r"^\d$": NULL}, "additionalProperties": S},
        ['{"1":null,"a":"x"}'],
        ['{"1":"x"}', '{"٣":"x"}', '{"٣":null}'],
    ),
    "multiple_of_seven": (
        {"type": "integer", "multipleOf": 7},
        ["0", "-14", "7", "1001", "700000000007"],
        ["1", "-6", "1002", "-0"],
    ),
    "multiple_of_thirty": (
        {"type": "integer", "multipleOf": 30, "minimum": 31},
        ["60", "3000"],
        ["30", "50", "3010"],
    ),
    "multiple_of_decimal": (
        {"type": "number", "multipleOf": 1.5, "maximum": 100},
        ["0", "4.5", "-1.5", "3", "3.0", "99"],
        ["1", "2.5", "4.50", "101.5", "-0.0", "04.5"],
    ),
    "password": (
        {"type": "string", "pattern": r"^(?=.*\d)(?=.*[a-z])(?!.*xx).{3,6}$"},
        ['"ab1"', '"1x2x"'],
        ['"abc"', '"123"', '"1xx"', '"a1"'],
    ),
    "word": (
        {"type": "string", "pattern": r"\bcat\b"},
        ['"cat"', '"a cat."', '"cat-"'],
        ['"cats"', '"a_cat"', '"ca"'],
    ),
    "all_types": (
        {
            "type": ["null", "boolean", "number", "string", "array", "object"],
            "minLength": 2,
        },
        ["1.5", "null", "true", "[]", "{}", '"ab"'],
        ['"a"'],
    ),
    "negated_items": (
        {"not": {"items": INT}},
        ['["a"]', '[1,"a"]', '["a",1]'],
        ["[]", "[1]", "1"],
    ),
    "negated_prefix": (
        {"not": {"prefixItems": [INT, S]}},
        ['["a"]', "[1,2]", '[1,2,"x"]'],
        ["[]", "[1]", '[1,"a"]', '[1,"a",2]'],
    ),
    "fractions": (
        {"type": "number", "not": {"type": "integer"}, "minimum": 0},
        ["0.5", "12.25"],
        ["1", "1.0", "0.0", "-0.5"],
    ),
    "many_patterns": (
        {
            "type": "object",
            "patternProperties": {f"^{letter}_": {"const": letter} for letter in "abcdefgh"},
        },
        ['{"a_1":"a","h_":"h"}'],
        ['{"a_1":"b"}', '{"i_1":"i"}'],
    ),
    "one_of_closed": (
        {
            "oneOf": [
                members("a", a=INT) | {"additionalProperties": False},
                members(a=INT, b=INT) | {"additionalProperties": False},
            ]
        },
        ["{}", '{"b":1}', '{"a":1,"b":2}'],
        ['{"a":1}', '{"c":1}'],
    ),
    "not_counted": (
        {"additionalProperties": INT, "not": {"minProperties": 2}},
        ["{}", '{"a":1}'],
        ['{"a":1,"b":2}'],
    ),
    "not_patterns": (
        {
            "type": "object",
            "additionalProperties": INT,
            "properties": {"ab": {"type": ["integer", "string"]}},
            "not": {"patternProperties": {"^a": {"minimum": 5}}},
        },
        ['{"a":1}', '{"ab":4,"a":9}', '{"abc":3,"b":1}'],
        ["{}", '{"a":5}', '{"ab":"x"}', '{"b":1}'],
    ),
    "not_additional": (
        {
            "additionalProperties": INT,
            "properties": {"a": S},
            "not": {"additionalProperties": {"minimum": 5}, "patternProperties": {"^b": True}},
        },
        ['{"a":"x","c":1}', '{"c":4}'],
        ["{}", '{"a":"x"}', '{"b":1}', '{"c":5}'],
    ),
    "not_named": (
        {"type": "object", "not": {"required": ["a"], "propertyNames": {"maxLength": 1}}},
        ["{}", '{"b":1}', '{"bc":1}'],
        ['{"a":1}'],
    ),
    "one_of_not": (  # the values of a negation are known in part only: no proof of disjoint parts
        {
            "oneOf": [
                {"not": {"properties": {"a": INT}, "additionalProperties": False}},
                members("b", b=S),
            ],
            "type": "object",
        },
        ['{"a":"x"}'],
        ['{"b":"x"}', '{"b":"x","a":1}', '{"a":1}'],
    ),
    "all_of_patterns": (
        {
            "allOf": [
                {"patternProperties": {"^a": INT}, "additionalProperties": S},
                {"patternProperties": {"b$": {"minLength": 2}}, "additionalProperties": False},
            ]
        },
        ["{}", '{"ab":1}', '{"b":"xy"}'],
        ['{"a":1}', '{"b":"x"}', '{"b":1}', '{"c":"xy"}', '{"ab":"xy"}'],
    ),
    "all_of_open_patterns": (
        {"allOf": [{"additionalProperties": {"minimum": 5}}, {"patternProperties": {"^a": INT}}]},
        ['{"a":5}', '{"b":6}', '{"b":6.5}'],
        ['{"a":4}', '{"a":5.5}', '{"b":4}'],
    ),
    "all_of_patterns_and_names": (
        {
            "allOf": [
                {"properties": {"a": True}, "additionalProperties": {"minimum": 5}},
                {"properties": {"c": INT}, "patternProperties": {"^a": INT}},
            ]
        },
        ['{"a":4}', '{"a":1,"c":5}', '{"ab":5}'],
        ['{"a":1.5}', '{"ab":4}', '{"c":4}'],
    ),
    "unevaluated_beside_not": (
        {"type": "object", "not": {"required": ["b"]}, "unevaluatedProperties": INT},
        ["{}", '{"c":1}'],
        ['{"b":1}', '{"c":"x"}'],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_texts(name):
    """Compact: the table is about values, `test_the_default_layout` about blanks."""
    schema, accepted, rejected = TABLE[name]
    rules = translate(json.dumps(schema), 0)
    validator = jsonschema.Draft202012Validator(schema)
    assert [text for text in accepted if not matches(rules, text)] == []
    assert [text for text in rejected if matches(rules, text)] == []
    if name not in ("cents", "draft07_tuple"):
        assert [text for text in accepted if not validator.is_valid(json.loads(text))] == []


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
def test_what_stands_under_not_is_not_evaluated(keyword):
    inner = {"properties": {"a": INT}, "prefixItems": [INT]}
    schema = {"type": ["object", "array"], "not": {"not": inner}, keyword: False}
    with pytest.raises(GrammarError, match=f"{keyword} at #/{keyword}: not enforced"):
        translate(json.dumps(schema))


@pytest.mark.parametrize("draft", ["draft-04", "draft-07"])
def test_older_drafts_hide_what_stands_beside_a_reference(draft):
    schema = {
        "$schema": f"http://json-schema.org/{draft}/schema#",
        "type": "object",
        "properties": {"a": {"$ref": "#/definitions/n", "maximum": 3}, "$ref": INT},
        "definitions": {"n": {"type": "integer", "minimum": 2}},
    }
    rules = translate(json.dumps(schema), 0)
    assert matches(rules, '{"a":9,"$ref":1}') and not matches(rules, '{"a":1}')
    assert jsonschema.validators.validator_for(schema)(schema).is_valid({"a": 9})


def test_exclusive_bounds_of_draft_04():
    schema: dict[str, object] = {"$schema": "http://json-schema.org/draft-04/schema#"}
    schema |= {"type": "integer"}
    schema |= {"minimum": 3, "exclusiveMinimum": True, "maximum": 6, "exclusiveMaximum": False}
    rules = translate(json.dumps(schema))
    allowed = [value for value in range(10) if matches(rules, str(value))]
    assert allowed == [v for v in range(10) if jsonschema.Draft4Validator(schema).is_valid(v)]


@pytest.mark.parametrize("name", TABLE)
def test_the_default_layout(name):
    """That of `json.dumps`, and no other."""
    schema, accepted, _ = TABLE[name]
    rules = translate(json.dumps(schema))
    for text in accepted:
        value = json.loads(text)
        if json.dumps(value, ensure_ascii=False, separators=(",", ":")) == text:
            spaced = json.dumps(value, ensure_ascii=False)
            assert matches(rules, spaced)
            assert matches(rules, text) == (text == spaced)


LOOSE = [
    ({"type": "integer", "maximum": 12}, ["1", "1.0", "-3.0", "12.0"], ["1.5", "1.00", "13.0"]),
    ({"type": "integer", "$schema": "http://json-schema.org/draft-04/schema#"}, ["1"], ["1.0"]),
    ({"enum": [1, 2.5, "1"]}, ["1", "1.0", "2.5", '"1"'], ["2.50", "true"]),
    ({"const": [0.0, {"a": -2.0}]}, ['[0,{"a":-2}]', '[0.0,{"a":-2.0}]'], ["[0]"]),
]


@pytest.mark.parametrize(("schema", "accepted", "rejected"), LOOSE)
def test_numbers_have_more_spellings_if_not_strict(schema, accepted, rejected):
    rules = translate(json.dumps(schema), 0, strict=False)
    assert [text for text in accepted if not matches(rules, text)] == []
    assert [text for text in rejected if matches(rules, text)] == []


def test_whitespace_is_bounded():
    rules = translate(json.dumps(members("a", a={"type": "array", "items": INT}, b=INT)), 1)
    assert matches(rules, '{ "a" : [ 1 ,\n2 ] , "b" :\n3 }')
    assert matches(rules, '{"a":[]}') and matches(rules, '{"a":[ ]}')
    assert (
        not matches(rules, '{  "a":[]}')
        and not matches(rules, '{\t"a":[]}')
        and not matches(rules, '{"a":[]} ')
    )


REFUSED = {
    "look_ahead": ({"items": {"pattern": "b(?=a)"}}, "pattern at #/items/pattern", "alternatives"),
    "multiple": ({"type": "integer", "multipleOf": 101}, "multipleOf at #/multipleOf", "maximum"),
    "unique": (
        {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 3},
        "uniqueItems at #/uniqueItems: no JSON value is valid",
        "minItems",
    ),
    "contains": ({"contains": INT, "maxItems": 99}, "contains at #/contains", "prefixItems"),
    "one_of": ({"oneOf": [{"format": "uri"}, {"format": "email"}]}, "oneOf at #/oneOf", "anyOf"),
    "not_format": ({"not": {"format": "uri"}}, "format at #/not/format", "const"),
    "not_object": ({"not": {"const": {}}}, "not at #/not", "forbid"),
    "remote": ({"$ref": "https://a.b/c.json"}, "$ref at #/$ref", "documents="),
    "several_dynamic": (
        {
            "items": {"$dynamicRef": "https://a.b/p#x"},
            "$defs": {
                name: {"$id": f"https://a.b/{name}", "$dynamicAnchor": "x", "type": kind}
                for name, kind in [("p", "string"), ("q", "integer")]
            },
        },
        "$dynamicRef at #/items/$dynamicRef",
        "$ref",
    ),
    "missing": ({"$ref": "#/$defs/wond", "$defs": {"wand": INT}}, "$ref at #/$ref", "#/$defs/wand"),
    "self": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        "refers to itself",
        "describe",
    ),
    "left": ({"anyOf": [{"$ref": "#"}, NULL]}, "refers to itself", "describe"),
    "left_merged": (
        {"minimum": 1, "allOf": [{"$ref": "#"}]},
        "refers to itself",
        "describe the value",
    ),
    "too_few_names": (
        {"patternProperties": {"^[ab]$": {}}, "minProperties": 3},
        "no JSON value is valid",
        "exclude",
    ),
    "nothing": ({"enum": []}, "no JSON value is valid", "exclude"),
    "contradiction": (members("a", a=False), "no JSON value is valid", "exclude"),
    "draft04": (
        {"minimum": "1", "exclusiveMinimum": True},
        "minimum at #/minimum",
        "number",
    ),
    "bad_type": ({"type": "int"}, "type at #/type", "integer"),
    "bad_required": ({"required": True}, "required at #/required", "list"),
    "bad_schema": ({"properties": {"a": 1}}, "properties at #/properties", "object"),
    "bad_logic": ({"not": {"allOf": 5}}, "allOf at #/not/allOf", "list"),
    "bad_not": ({"not": {"not": 5}}, "not at #/not/not", "true or false"),
    "bad_additional_items": (
        {"items": [INT], "additionalItems": 5},
        "additionalItems at #/additionalItems",
        "object",
    ),
    "bad_dependency": (
        {"dependentRequired": {"a": 5}},
        "dependentRequired at #/dependentRequired",
        "lists",
    ),
    "draft07_missing": (
        {"$ref": "#/definitions/w", "definitions": {"wand": INT}},
        "$ref at",
        "#/definitions/wand",
    ),
    "unevaluated_if": (
        {
            "allOf": [{"if": members("k", k={"const": 1}), "then": {}, "else": {}}],
            "unevaluatedProperties": False,
        },
        "unevaluatedProperties at #/unevaluatedProperties",
        "additionalProperties",
    ),
    "unevaluated_one_of": (
        {"oneOf": [members("a", a=S), members("b", b=S)], "unevaluatedProperties": False},
        "unevaluatedProperties at #/unevaluatedProperties",
        "additionalProperties",
    ),
    "surrogate": ({"const": "\ud800"}, "surrogate", "whole"),
    "cases": (
        {
            "allOf": [
                {"anyOf": [{"required": [f"a{k}"]}, {"required": [f"b{k}"]}]} for k in range(20)
            ]
        },
        "allOf at #/allOf",
        "256",
    ),
}


ANNOTATED = {
    "x-order": 3, "self": "a", "readonly": True, "markdownDescription": "*b*", "id": "c",
    "components": {"schemas": {}}, "options": {"hidden": True}, "minLenght": 9, "format": "colour",
}  # fmt: skip


def test_unknown_keywords_and_formats_are_annotations():
    plain = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 3}}}
    marked = {
        **plain, **ANNOTATED, "properties": {"a": {**ANNOTATED, "type": "string", "maxLength": 3}},
    }  # fmt: skip
    assert trees(marked) == trees(plain)
    assert trees({**ANNOTATED, "$ref": "#/$defs/x", "$defs": {"x": INT}}) == trees(INT)


def trees(schema):
    return translate(json.dumps(schema))


OPEN = {
    "properties": (members("a", a=INT), '{"a": 1, "b": [null]}', '{"b": 1}'),
    "pattern": ({"patternProperties": {"^x": INT}}, '{"y": "z"}', '{"x": "z"}'),
    "items": ({"prefixItems": [INT]}, '[1, "a"]', '["a"]'),
    "types": ({"minLength": 2}, "7", '"a"'),
    "inside": ({"type": "array", "items": {"maximum": 3}}, '["a", 2]', "[4]"),
    "all_of": ({"allOf": [members(a=INT), members(b=S)]}, '{"a": 1, "b": "x", "c": 1}', '{"b": 1}'),
    "closed": (members(a=INT) | {"additionalProperties": False}, '{"a": 1}', '{"b": 1}'),
}


@pytest.mark.parametrize("name", OPEN)
def test_not_strict_a_schema_means_what_the_specification_says(name):
    schema, valid, invalid = OPEN[name]
    rules = translate(json.dumps(schema), strict=False)
    assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(valid))
    assert matches(rules, valid) and not matches(rules, invalid)
    assert matches(trees(schema), valid) is (name == "closed")


def test_what_looks_as_if_it_asked_something_is_named():
    schema = {
        "properties": {
            "a": {"type": "string", "minLenght": 3, "x-minLen": 1, "readonly": True},
            "b": {"type": "string", "format": "date-tim"},
            "c": {"not": {"Required": ["x"]}, "format": "hue"},
        }
    }
    assert lint_schema(json.dumps(schema)) == (
        "format 'hue' at #/properties/c/format has no effect: use pattern to enforce the form",
        "Required at #/properties/c/not/Required has no effect: did you mean 'required'?",
        "format 'date-tim' at #/properties/b/format has no effect: did you mean 'date-time'?",
        "minLenght at #/properties/a/minLenght has no effect: did you mean 'minLength'?",
    )
    assert lint_schema(json.dumps({"properties": {"minLenght": INT}})) == ()


def test_id_names_schemas_in_draft_04_only():
    inner = {"id": "http://a.b/x.json", "type": "integer"}
    schema = {"$ref": "http://a.b/x.json", "definitions": {"x": inner}}
    draft04 = {"$schema": "http://json-schema.org/draft-04/schema#", **schema}
    assert matches(trees(draft04), "12") and not matches(trees(draft04), '"a"')
    with pytest.raises(GrammarError, match="is not in the schema"):
        trees(schema)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_keyword_place_and_hint(name):
    schema, message, hint = REFUSED[name]
    with pytest.raises(GrammarError) as caught:
        translate(json.dumps(schema))
    assert message in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "3", '{"minimum":NaN}', '{"const":1e999}', "[" * 100_000, '{"not":' * 5000],
)
def test_what_is_no_schema(text):
    with pytest.raises(GrammarError):
        translate(text)


def nested(levels, wrap):
    schema = INT
    for _ in range(levels):
        schema = wrap(schema)
    return schema


LARGE = {
    "objects_60_deep": nested(60, lambda inner: members("a", a=inner, b=S)),
    "arrays_99_deep": nested(99, lambda inner: {"type": "array", "items": inner}),
    "any_of_90_deep": nested(90, lambda inner: {"anyOf": [inner, NULL]}),
    "all_of_90_deep": nested(90, lambda inner: {"allOf": [inner, {"minimum": 3}]}),
    "objects_101_deep": nested(101, lambda inner: members("a", a=inner)),
    "a_million_characters": members(
        **{f"property_{k}": S | {"description": "x" * 40} for k in range(10_000)}
    ),
    "chain_of_references": {
        "$defs": {f"d{k}": members(a={"$ref": f"#/$defs/d{k + 1}"}) for k in range(3000)}
        | {"d3000": INT},
        "$ref": "#/$defs/d0",
    },
    "diamonds": {
        "$defs": {
            f"d{k}": members(a={"$ref": f"#/$defs/d{k + 1}"}, b={"$ref": f"#/$defs/d{k + 1}"})
            for k in range(60)
        }
        | {"d60": INT},
        "$ref": "#/$defs/d0",
    },
    "300_tagged": {"oneOf": [members("k", k={"const": k}, v=INT) for k in range(300)]},
    "20_000_values": {"enum": [f"value {k}" for k in range(20_000)]},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_schemas_are_translated_or_refused_at_once(name):
    text = json.dumps(LARGE[name])
    start = time.process_time()
    try:
        translate(text)
    except GrammarError as error:
        assert "nested" in error.message
    assert time.process_time() - start < 4


def labels(node, rules: Rules, found: list[str]) -> list[str]:
    if isinstance(node, Source):
        found.append(node.label)
    if isinstance(node, Reference):
        return labels(rules.rules[node.name], rules, found)
    children = getattr(node, "parts", getattr(node, "options", ()))
    for child in (*children, *([node.node] if hasattr(node, "node") else [])):
        labels(child, rules, found)
    return found


def test_labels_are_places_in_the_text():
    schema = members(
        "wand",
        "items",
        wand=members("length", length=INT),
        items={"type": "array", "items": {"$ref": "#/$defs/x"}},
    )
    schema |= {
        "$defs": {"x": members("odd name", **{"odd name": NULL})},
        "additionalProperties": INT,
    }
    rules = translate(json.dumps(schema))
    expected = {
        "$",
        "$.wand",
        "$.wand.length",
        "$.items",
        "$.items[]",
        '$.items[]["odd name"]',
        "$.*",
    }
    assert set(labels(rules.start, rules, [])) == expected


def test_shared_definitions_are_rules_with_labels_of_their_place():
    rules = translate(
        json.dumps(
            {"$defs": {"p": members("x", x=INT)}}
            | members("a", "b", a={"$ref": "#/$defs/p"}, b={"$ref": "#/$defs/p"})
        )
    )
    assert len(rules.rules) == 2
    assert {"$.a.x", "$.b.x"} <= set(labels(rules.start, rules, []))


def test_optional_properties_need_few_states():
    schema = members(**{f"option_{k}": {"type": "boolean"} for k in range(60)})
    assert build(translate(json.dumps(schema))).states < 60 * 30


def test_recursive_schemas_share_the_rules_of_their_positions():
    point = members(x={"type": "number"})
    node = {"$ref": "#/$defs/node"}
    for recursive in (True, False):
        inner = {"next": {"anyOf": [node, {"type": "null"}]}} if recursive else {}
        schema = {
            "$defs": {"point": point, "node": members(first={"$ref": "#/$defs/point"}, **inner)},
            **members(**{f"part_{k}": node for k in range(5)}),
        }
        rules = translate(json.dumps(schema)).rules
        points = [name for name in rules if name.startswith("#/$defs/point ")]
        assert len(points) == (1 if recursive else 5), recursive


def test_every_enforced_keyword_is_read_somewhere():
    elsewhere = {
        "$ref",
        "$defs",
        "definitions",
        "$id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "then",
        "else",
        "additionalItems",
    }
    assert {name for name, known in KEYWORDS.items() if known.state == ENFORCED} == {
        *READERS,
        *LOGIC,
        *elsewhere,
    }


def test_document_is_current():
    path = Path(__file__).parents[2] / "docs" / "JSON_SCHEMA.md"
    command = "python -m tools.json_schema docs/JSON_SCHEMA.md"
    assert path.read_text(encoding="utf-8") == document(), f"run: {command}"


def test_translation_imports_neither_torch_nor_numpy():
    heavy = "('torch', 'numpy', 'transformers')"
    found = f"[name for name in {heavy} if name in sys.modules]"
    code = f"import sys, sgnb.grammar.schema.translate; print({found})"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "[]"
    )
