// Links the prelude out of what esbuild bundled: each module becomes a function that is as cheap as can be until it is
// called, for every context of every run makes all of them anew. Modules that few runs touch go into parts, texts of
// their own that a context loads when it first asks; what is not in the prelude's own text no isolate has to hold.
// Knows nothing of what the modules do.

/** A module of the bundle: `require_x`, the names it is given, and its text. */
type Module = { path: string; call: string; parameters: string; body: string };

export type Linked = {
  prelude: string;
  /** Text of each part by its name: an expression, a function of the calls it needs from the prelude. */
  parts: Map<string, string>;
};

// As esbuild writes a CommonJS module. An object of its own for each, which makes a shape of its own in every context,
// cost half of what the prelude's text took to run.
const HEAD = /var (require_\w+)=__commonJS\(\{"([^"]+)"\(([\w,]*)\)\{/g;
const TAIL = '}});';
const CALL = /\brequire_\w+\b/g;

const modulesOf = (text: string): Module[] => {
  const heads = [...text.matchAll(HEAD)];
  return heads.map(({ 0: head, 1: call = '', 2: path = '', 3: parameters = '', index }, at) => {
    const next = heads[at + 1]?.index ?? text.lastIndexOf(`${heads.at(-1)?.[1]}();`);
    const body = text.slice(index + head.length, next).trimEnd();
    if (!body.endsWith(TAIL)) throw new Error(`${path} does not end as a module does`);
    return { path, call, parameters, body: body.slice(0, -TAIL.length).replace(/^"use strict";/, '') };
  });
};

/** The modules that are run when `from` is asked for, itself among them; those of `barred` are not entered. */
const reach = (from: Module, all: Map<string, Module>, barred: Set<Module>, found = new Set<Module>()): Set<Module> => {
  if (found.has(from)) return found;
  found.add(from);
  for (const [call] of from.body.matchAll(CALL)) {
    const module = all.get(call);
    if (module && !barred.has(module)) reach(module, all, barred, found);
  }
  return found;
};

/** Nothing of it runs, nor is compiled, before its first call. One that throws is tried anew by the next call. */
const writeModule = ({ call, parameters, body }: Module): string => {
  const own = call.replace('require_', 'module_');
  return (
    `var ${own};function ${call}(){if(${own}===void 0){${own}={exports:{}};` +
    `try{(function(${parameters}){${body}})(${own}.exports,${own})}catch(e){${own}=void 0;throw e}}return ${own}.exports}`
  );
};

/**
 * @param text what esbuild made of CommonJS modules alone, with whitespace minified; its last module is the entry.
 * @param roots name of a part -> path of the module that opens it. All that is reached through it alone comes along.
 * @param loader path of the module that exports `loadPart(name)`.
 */
export const linkPrelude = (text: string, roots: Record<string, string>, loader: string): Linked => {
  const modules = modulesOf(text);
  const all = new Map(modules.map((module) => [module.call, module]));
  const find = (path: string): Module => {
    const module = modules.find((candidate) => candidate.path === path);
    if (!module) throw new Error(`there is no module ${path}`);
    return module;
  };
  const barred = new Set(Object.values(roots).map(find));
  const core = reach(modules.at(-1) as Module, all, barred);
  reach(find(loader), all, barred, core);

  const reached = Object.entries(roots).map(([name, path]) => ({
    name,
    root: find(path),
    modules: reach(find(path), all, barred),
  }));
  // What two parts need is the prelude's.
  for (const { root, modules: ours } of reached)
    for (const module of ours)
      if (module !== root && reached.some((other) => other.root !== root && other.modules.has(module)))
        core.add(module);

  const parts = new Map<string, string>();
  const stubs = reached.map(({ name, root, modules: ours }) => {
    const inside = modules.filter((module) => ours.has(module) && !core.has(module));
    const used = inside.flatMap(({ body }) => [...body.matchAll(CALL)].map(([call]) => all.get(call)));
    const outside = [...new Set(used)]
      .filter((module) => module && !inside.includes(module))
      .map((module) => module?.call);
    parts.set(
      name,
      `(function(${outside.join(',')}){'use strict';${inside.map(writeModule).join('')}return ${root.call}})\n//# sourceURL=prelude.js\n`,
    );
    const own = root.call.replace('require_', 'part_');
    return `var ${own};function ${root.call}(){return(${own}??=${find(loader).call}().loadPart("${name}")(${outside.join(',')}))()}`;
  });

  const inside = modules.filter((module) => core.has(module));
  const prelude = `'use strict';(()=>{${inside.map(writeModule).join('')}${stubs.join('')}return ${modules.at(-1)?.call}()})()\n`;
  for (const written of [prelude, ...parts.values()])
    // What esbuild puts in front of its modules is left behind: nothing may call it.
    if (/\b__(?!esModule\b)\w+\(/.test(written))
      throw new Error('the bundle calls a helper of esbuild, or has a module that is not CommonJS');
  return { prelude, parts };
};
