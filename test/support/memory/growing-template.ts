import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** A chat template that makes a list of texts of a mebibyte each where `when` is true, and then goes on for long. */
export const growingTemplate = (mebibytes: number, when = 'true'): string =>
  [
    `{% set ns = namespace(s='x', l=[]) %}{% if ${when} %}`,
    '{% for i in range(20) %}{% set ns.s = ns.s + ns.s %}{% endfor %}',
    `{% for i in range(${mebibytes}) %}{% set ns.l = ns.l + [ns.s + 'y'] %}{% endfor %}`,
    "{% for i in range(20000) %}{% set ns.t = ns.s + 'z' %}{% endfor %}{% endif %}",
    '{% for message in messages %}{{ message.content }}{% endfor %}',
  ].join('')

/** Whatever a template does, the system gives this llama-server no more than 3 GB of addresses. */
export async function boundedServer(folder: string, llamaServer: string): Promise<string> {
  const file = join(folder, 'bounded', 'llama-server')
  await mkdir(join(folder, 'bounded'))
  await writeFile(file, `#!/bin/sh\nulimit -v 3000000\nexec '${llamaServer}' "$@"\n`, { mode: 0o755 })
  return file
}
