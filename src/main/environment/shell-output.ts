/** Not as they are printed, so that a shell that echoes its command does not print them. */
const [begin, end] = [
  ['metalbar-env', 'begin'],
  ['metalbar-env', 'end'],
] as const

const markerOf = (parts: readonly [string, string]): string => `<<${parts[0]}-${parts[1]}>>`
const printed = ([what, which]: readonly [string, string]): string => `printf "<<%s-%s>>" ${what} ${which}`

/**
 * What the login shell is asked to run. Quotes alone mean the same in bash, zsh, fish and tcsh, so the rest is left to sh, which has the
 * environment that the shell exports. Older macOS has no `env -0`.
 */
export const shellCommand = `/bin/sh -c '${printed(begin)}; env -0 2>/dev/null || env; ${printed(end)}'`

/** What stands between the marks, whatever the shell's own files print around it; undefined where it did not come that far. */
export function environmentIn(output: string): Readonly<Record<string, string>> | undefined {
  const from = output.lastIndexOf(markerOf(begin))
  const to = output.indexOf(markerOf(end), from)
  if (from === -1 || to === -1) return undefined
  const text = output.slice(from + markerOf(begin).length, to)
  return Object.fromEntries(
    text.split(text.includes('\0') ? '\0' : '\n').flatMap((line) => {
      const at = line.indexOf('=')
      return at > 0 ? [[line.slice(0, at), line.slice(at + 1)] as const] : []
    }),
  )
}
