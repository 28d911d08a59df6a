const variable = 'NODE_COMPILE_CACHE'

/** For a process whose environment has nothing of this machine: it loads what another one of the run has compiled already. */
export function compileCacheOfRun(): Readonly<Record<string, string>> {
  const folder = process.env[variable]
  return folder === undefined ? {} : { [variable]: folder }
}
