import { existsSync } from 'node:fs'
import { mkdtemp, rm, watch, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { SudoLeave } from '../../agent-core/power/sudoers.ts'
import type { PowerRuleChange } from '../../contract/app-bridge.ts'
import type { AgentLink } from '../../contract/client.ts'
import type { CommandResult } from '../../contract/commands.ts'
import { machineWords } from '../words.ts'

export interface MeasurePowerOptions {
  readonly link: Pick<AgentLink, 'command'>
  readonly temporaryDir: string
  readonly own: OwnCommand
  /** Shows the script first; false where the person does not want it. */
  readonly confirm: (script: string, change: PowerRuleChange) => Promise<boolean>
  /** With the system's program for it, which is Terminal; answers what went wrong, or nothing. */
  readonly openFile: (file: string) => Promise<string>
  /** What sudo allows this user now. Throws ProgramError. */
  readonly leave: () => Promise<SudoLeave | undefined>
  readonly limitMs?: number
}

/** So long a person may take for a password in Terminal. */
const defaultLimitMs = 600_000

const words = machineWords.power

/** Has power measured, after the person gave leave in Terminal where sudo lacks its rule. Undefined where the person does not want it. */
export async function measurePower(options: MeasurePowerOptions): Promise<CommandResult | undefined> {
  const { link, leave } = options
  if (!isGiven(await leave())) {
    const asked = await askInTerminal(options, 'install')
    if (asked === 'unwanted') return undefined
    if (asked !== 'ended') return failed(asked)
    if (!isGiven(await leave())) return failed(words.notAllowed)
  }
  return link.command({ name: 'updateSettings', settings: { applePowerEnabled: true, powerSource: 'powermetrics' } })
}

/** Has sudo's rule written or deleted, whatever is measured. Undefined where the person does not want it. */
export async function changePowerRule(
  options: MeasurePowerOptions,
  change: PowerRuleChange,
): Promise<CommandResult | undefined> {
  const asked = await askInTerminal(options, change)
  if (asked === 'unwanted') return undefined
  if (asked !== 'ended') return failed(asked)
  const lets = isGiven(await options.leave())
  if (lets === (change === 'install')) return { outcome: 'done', message: lets ? words.allowed : words.refused }
  return failed(lets ? words.stillAllowed : words.notAllowed)
}

const isGiven = (leave: SudoLeave | undefined): boolean => (leave?.intervalsMs.length ?? 0) > 0

const failed = (message: string): CommandResult => ({ outcome: 'failed', message })

/** One sentence where Terminal cannot be opened, or is not done with it in time. */
async function askInTerminal(options: MeasurePowerOptions, change: PowerRuleChange): Promise<string> {
  const { temporaryDir, own, confirm, openFile, limitMs = defaultLimitMs } = options
  const folder = await mkdtemp(path.join(temporaryDir, 'metalbar-power-'))
  try {
    const script = powerScript(own, change)
    if (!(await confirm(script, change))) return 'unwanted'
    // Terminal runs what is called so.
    const file = path.join(folder, 'measure-power.command')
    const limit = AbortSignal.timeout(limitMs)
    const ended = untilGone(folder, file, limit)
    await writeFile(file, script, { mode: 0o700, flag: 'wx' })
    const problem = await openFile(file)
    if (problem !== '') return words.notOpened(problem)
    await ended
    return limit.aborted ? words.notEnded : 'ended'
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The script takes its folder away when it ends. Resolves then, or when the time is up. */
async function untilGone(folder: string, file: string, limit: AbortSignal): Promise<void> {
  try {
    for await (const _ of watch(folder, { signal: limit })) if (!existsSync(file)) return
  } catch (error) {
    if (!limit.aborted) throw error
  }
}

export interface OwnCommand {
  /** The command itself, or Electron, which runs as Node.js where ELECTRON_RUN_AS_NODE is set. */
  readonly program: string
  /** The built `metal-agent` that Electron runs; undefined in a package, whose Electron refuses to be Node.js. */
  readonly script?: string | undefined
}

/**
 * What Terminal runs to let this user measure power, or to take that leave away. It names the app's own command, since an app that came as a disk image has no
 * `metal-agent` in PATH, and takes itself and its folder, if that is empty then, away at its end, by which the app knows of it.
 */
export const powerScript = ({ program, script }: OwnCommand, change: PowerRuleChange): string => `#!/bin/sh
# Metalbar: ${words.script[change]}
trap 'exit 1' HUP INT TERM
trap 'rm -f -- "$0" && rmdir -- "$(dirname -- "$0")"' EXIT
${script === undefined ? quoted(program) : `ELECTRON_RUN_AS_NODE=1 ${quoted(program)} ${quoted(script)}`} power ${change}
`

/** One word of a shell, whatever is in it. */
const quoted = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`
