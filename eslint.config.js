// The page's files are concatenated into a single module (sgnb/viz/live/widget.py), so a file may
// use the top-level names of the others.
import js from "@eslint/js";
import globals from "globals";
import { readdirSync, readFileSync } from "node:fs";

const page = "sgnb/viz/page/";
const text = readdirSync(page)
  .filter((name) => name.endsWith(".js"))
  .map((name) => readFileSync(page + name, "utf-8"))
  .join("\n");
const declarations = text.matchAll(/^(?:async )?(?:function|const|let|class) (.*)/gm);
const shared = [...declarations].flatMap(([, line]) => line.match(/^\w+/) ?? []);
const used = shared.filter((name) => text.match(new RegExp(`\\b${name}\\b`, "g")).length > 1);

export default [
  { ignores: ["**", "!sgnb/", "!sgnb/viz/", "!sgnb/viz/page/", "!sgnb/viz/page/*.js"] },
  js.configs.recommended,
  {
    languageOptions: {
      globals: { ...globals.browser, ...Object.fromEntries(shared.map((name) => [name, false])) },
    },
    rules: {
      "no-redeclare": ["error", { builtinGlobals: false }],
      "no-unused-vars": ["error", { varsIgnorePattern: `^(${used.join("|")})$` }],
      eqeqeq: "error",
      "prefer-const": ["error", { destructuring: "all" }],
    },
  },
];
