import type { PortHolder, Workplace } from './platform.ts'

/** From `lsof -Fpgcnu`: one field a line, its letter first; every process opens with `p`, and has a name such as `*:8080` for each socket. */
export function parseLsof(
  text: string,
): (PortHolder & { pid: number; groupId: number; userId: number; names: string[] })[] {
  return text
    .split(/^p/m)
    .slice(1)
    .map((block) => {
      const [pid, ...fields] = block.split('\n')
      const value = (letter: string) => fields.find((field) => field.startsWith(letter))?.slice(1)
      const command = decoded(value('c'))
      const names = fields.filter((field) => field.startsWith('n')).map((field) => field.slice(1))
      const [groupId, userId] = [Number(value('g')), Number(value('u'))]
      return { pid: Number(pid), groupId, userId, names, ...(command === undefined ? {} : { command }) }
    })
}

/** From `lsof -Ffn -d cwd,1`: a process opens with `p`, each of its files with `f`, its name with `n`. */
export function parseWorkplaces(text: string): Workplace[] {
  return text
    .split(/^p/m)
    .slice(1)
    .flatMap((block) => {
      const [pid, ...fields] = block.split('\n')
      const files = new Map<string, string | undefined>()
      let file = ''
      for (const field of fields) {
        if (field.startsWith('f')) file = field.slice(1)
        else if (field.startsWith('n')) files.set(file, decoded(field.slice(1)))
      }
      const [workingDirectory, output] = [files.get('cwd'), files.get('1')]
      if (workingDirectory === undefined) return []
      return [{ pid: Number(pid), workingDirectory, ...(output?.startsWith('/') === true && { output }) }]
    })
}

/** The escapes of C that lsof writes; before all others it writes `^` and the letter 64 above. */
const controls: Readonly<Record<string, number>> = { b: 0x08, f: 0x0c, n: 0x0a, r: 0x0d, t: 0x09, '\\': 0x5c }

/**
 * Undoes how lsof prints what its locale cannot show, which in that of C is every byte of a letter beyond ASCII: `\xc3\xbc` is ü
 * (`safestrprt` and `safepup`, print.c and misc.c). A backslash is `\\`, but as it is in older versions; a caret that was typed looks
 * like one before a control character, which nobody has in a path, so it stays a caret.
 */
function decoded(text: string | undefined): string | undefined {
  if (text === undefined || !/[\\^]/.test(text)) return text
  const parts = text.matchAll(/\\x([0-9a-f]{2})|\\([bfnrt\\])|[^\\]+|\\/g)
  const bytes = parts.map(([part, hex, control]) => {
    if (hex !== undefined) return Buffer.of(Number.parseInt(hex, 16))
    const code = control === undefined ? undefined : controls[control]
    return code === undefined ? Buffer.from(part) : Buffer.of(code)
  })
  return Buffer.concat([...bytes]).toString('utf8')
}
