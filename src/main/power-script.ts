import type { PowerRuleChange } from '../contract/app-bridge.ts'

export interface OwnCommand {
  /** The command itself, or Electron, which is Node.js where it is told so. */
  readonly program: string
  /** The built `metal-agent` that Electron runs; undefined in a package, whose Electron refuses to be Node.js. */
  readonly script?: string | undefined
}

/**
 * What Terminal runs to let this user measure power, or to take that leave away. It names the app's own command, since an app that came as a disk image has no
 * `metal-agent` in PATH, and takes itself and its folder, if that is empty then, away at its end, by which the app knows of it.
 */
export const powerScript = ({ program, script }: OwnCommand, change: PowerRuleChange): string => `#!/bin/sh
# Metalbar: ${whatItDoes[change]}, which asks for your password.
trap 'exit 1' HUP INT TERM
trap 'rm -f -- "$0" && rmdir -- "$(dirname -- "$0")"' EXIT
${script === undefined ? quoted(program) : `ELECTRON_RUN_AS_NODE=1 ${quoted(program)} ${quoted(script)}`} power ${change}
`

const whatItDoes: Readonly<Record<PowerRuleChange, string>> = {
  install: 'shows the rule by which sudo lets powermetrics run, has visudo check it, and has sudo write it',
  remove: 'has sudo delete the rule by which it lets powermetrics run',
}

/** One word of a shell, whatever is in it. */
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`
