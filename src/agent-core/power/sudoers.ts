import { stat } from 'node:fs/promises'
import { userInfo } from 'node:os'
import type { PowerRuleState } from '../../contract/power.ts'
import { askProgram } from '../util/ask-program.ts'
import { hasCode } from '../util/files.ts'
import { powerIntervalsMs } from './power-source.ts'
import { macCommands, powermetricsArguments } from './powermetrics.ts'

export interface SudoUser {
  readonly name: string
  readonly id: number
}

/** Where sudo reads rules beside its own; it ignores file names with a dot. */
const sudoersFolder = '/etc/sudoers.d'

/** One file for each user, so that none takes the rule from another. */
export const fragmentFile = ({ id }: SudoUser): string => `${sudoersFolder}/metalbar-powermetrics-${id}`

/** LLMKube's own, whose wildcard lets any option of powermetrics follow. */
const llmkubePattern = String.raw`--samplers cpu_power\,gpu_power -i [0-9]*`

/**
 * The rule that lets one user run powermetrics as root: each command line in full. There is no wildcard, since sudo matches one across
 * spaces, and powermetrics writes the file that an option of it names.
 */
export function fragmentFor(user: SudoUser): string {
  const who = sudoersUser(user)
  const rules = powerIntervalsMs.map((ms) => {
    const args = powermetricsArguments(ms).map((word) => word.replace(/[,:=\\]/g, String.raw`\$&`))
    return `${who} ALL = (root) NOPASSWD: ${macCommands.powermetrics} ${args.join(' ')}\n`
  })
  return `# Metalbar reads the power of this Mac with these command lines and no other, without a password.\n# metal-agent power remove takes this file away.\n${rules.join('')}`
}

/** The user as a rule names them: by number if the name could mean something else there, as an alias in capitals or a name that needs escapes does. */
const sudoersUser = ({ name, id }: SudoUser): string => (/^[a-z_][a-z0-9_.-]{0,62}$/.test(name) ? name : `#${id}`)

export interface SudoLeave {
  /** Intervals in milliseconds that may be measured without a password. */
  readonly intervalsMs: readonly number[]
  /** One sentence: a rule allows more than these command lines. */
  readonly tooWide?: string
}

/** As long as a directory server may take that sudo asks about its user. */
const askLimitMs = 30_000
const env = { PATH: '/usr/bin:/bin:/usr/sbin:/sbin', LC_ALL: 'C' }

/**
 * Which intervals this user may measure, as sudo tells it without a password; undefined where it does not tell what another user may do.
 * Throws ProgramError.
 */
export async function leaveOf({ name, id }: SudoUser, { sudo } = macCommands): Promise<SudoLeave | undefined> {
  const isOther = userInfo().uid !== id
  const args = ['-n', '-l', ...(isOther ? ['-U', name] : [])]
  const { exitCode, stdout } = await askProgram({ command: sudo, args, env, timeLimitMs: askLimitMs })
  if (exitCode === 0) return leaveIn(stdout)
  return isOther && !stdout.includes('is not allowed to run sudo') ? undefined : { intervalsMs: [] }
}

/** Whether our file is there; undefined where this user may not look. Only root may read its content. */
export async function hasRuleFile(user: SudoUser): Promise<boolean | undefined> {
  try {
    await stat(fragmentFile(user))
    return true
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return false
    if (hasCode(error, 'EACCES')) return undefined
    throw error
  }
}

/** What counts is what sudo allows, whichever file says so. */
export function ruleState(leave: SudoLeave, hasFile: boolean | undefined): PowerRuleState {
  const { intervalsMs, tooWide } = leave
  if (tooWide !== undefined) return 'different'
  if (intervalsMs.length === powerIntervalsMs.length) return 'installed'
  return intervalsMs.length > 0 || hasFile === true ? 'different' : 'missing'
}

/** What a user may do, read from what `sudo -n -l` prints. */
export function leaveIn(listing: string): SudoLeave {
  const rules = rulesIn(listing)
  const intervalsMs = powerIntervalsMs.filter((ms) => isAllowed(rules, powermetricsArguments(ms)))
  const wide = rules.find((rule) => rule.allows && isAllowed([rule], writesAnywhere))
  if (!wide) return { intervalsMs }
  const whose = wide.args === llmkubePattern ? "LLMKube's rule" : `A rule (${wide.text})`
  const tooWide = `${whose} is too wide: it lets this user run powermetrics as root with any option, including one that writes files.`
  return { intervalsMs, tooWide }
}

/** What no rule for measuring power should let pass. */
const writesAnywhere = [...powermetricsArguments(1_000), '-o', '/etc/any-file']

interface Rule {
  /** Without a password; what is refused, or asks for one, takes from an earlier rule. */
  readonly allows: boolean
  /** Undefined = any. */
  readonly args: string | undefined
  readonly text: string
}

/** Without a terminal sudo prints 80 columns and continues in the next line, further indented. */
const wrapped = /\n {8,}/g
/** What stands between commas; a comma that is escaped, or stands in a regular expression, separates nothing. */
const commands = /(?:\^[^$]*\$?|\\.|[^,\\^])+/g

/** Rules that are about powermetrics as root, in their order. */
function rulesIn(listing: string): Rule[] {
  return listing
    .replaceAll(wrapped, ' ')
    .split('\n')
    .flatMap((line) => {
      const [, runAs = '', list = ''] = /^\s+\(([^)]*)\)\s+(\S.*|)$/.exec(line) ?? []
      if (!/(?:^|[\s,])(?:root|ALL)(?:$|[\s,:])/.test(runAs)) return []
      let needsPassword = true
      return [...list.matchAll(commands)].flatMap(([entry]): Rule[] => {
        const [, tags = '', rest = ''] = /^((?:[A-Z_]+:\s*)*)(.*)$/s.exec(entry.trim()) ?? []
        for (const [, tag] of tags.matchAll(/\b(NO)?PASSWD:/g)) needsPassword = tag === undefined
        const isRefused = rest.startsWith('!')
        const [command, ...words] = rest.replace(/^!\s*/, '').split(/\s+/)
        if (command !== 'ALL' && command !== macCommands.powermetrics) return []
        const args = words.length === 0 ? undefined : words.join(' ')
        return [{ allows: !isRefused && !needsPassword, args, text: rest }]
      })
    })
}

/** The last rule that matches counts. */
function isAllowed(rules: readonly Rule[], args: readonly string[]): boolean {
  return rules.findLast((rule) => rule.args === undefined || matchesArguments(rule.args, args))?.allows ?? false
}

/**
 * As sudo matches the arguments of a rule: all words as one text, so a wildcard also matches spaces. From sudo 1.9.10 on what stands between
 * ^ and $ is a regular expression; `""` is no argument at all.
 */
export function matchesArguments(pattern: string, args: readonly string[]): boolean {
  const text = args.join(' ')
  if (pattern === '""') return args.length === 0
  if (pattern.startsWith('^') && pattern.endsWith('$')) return matchesExpression(pattern, text)
  return new RegExp(`^${globSource(pattern)}$`, 's').test(text)
}

/** A comma is escaped in a rule. An expression that cannot be read here is taken to match: then the rule is called too wide. */
function matchesExpression(pattern: string, text: string): boolean {
  try {
    return new RegExp(pattern.replaceAll(String.raw`\,`, ','), 's').test(text)
  } catch (error) {
    if (error instanceof SyntaxError) return true
    throw error
  }
}

const literally = (text: string): string => text.replace(/[^\w\s]/g, String.raw`\$&`)

const globSource = (pattern: string): string =>
  pattern.replace(
    /\\(.)|\[(!?)([^\]]+)\]|[*?]|[^\w\s]/gs,
    (found: string, literal?: string, not = '', set?: string) => {
      if (literal !== undefined) return literally(literal)
      if (set !== undefined) return `[${not === '!' ? '^' : ''}${set.replaceAll(/[\\^]/g, String.raw`\$&`)}]`
      if (found === '*') return '.*'
      return found === '?' ? '.' : literally(found)
    },
  )
