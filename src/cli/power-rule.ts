import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import path from 'node:path'
import { powerIntervalsMs } from '../agent-core/power/power-source.ts'
import { macCommands } from '../agent-core/power/powermetrics.ts'
import {
  fragmentFile,
  fragmentFor,
  hasRuleFile,
  leaveOf,
  type SudoLeave,
  type SudoUser,
} from '../agent-core/power/sudoers.ts'
import { askProgram, ProgramError } from '../agent-core/util/ask-program.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import { formatDuration } from '../contract/format.ts'
import { VerbError } from './agent-session.ts'
import { exitCodes, type CliIo } from './io.ts'

const visudo = '/usr/sbin/visudo'
/** As long as a directory server may take that is asked about a user. */
const askLimitMs = 30_000
const rootPath = '/usr/bin:/bin:/usr/sbin:/sbin'
const plainEnvironment = { PATH: rootPath, LC_ALL: 'C' }

/**
 * Run as root, with the rule on standard input, so that no other process can change it after it was checked. It is written beside its
 * place under a name that sudo ignores, and takes its place only where visudo accepts it. 0:0 is root:wheel. The sudo of macOS leaves
 * PATH as it is, by which a planted chmod would run as root.
 */
const installScript = `PATH=${rootPath}
export PATH
set -eu
umask 077
new="$1.new"
trap 'rm -f "$new"' EXIT
cat > "$new"
chown 0:0 "$new"
chmod 0440 "$new"
${visudo} -cf "$new" >/dev/null
mv -f "$new" "$1"
`

const unknown = { exitCode: 1, stdout: '' }

/** Throws VerbError where there is no such user. `given` absent = who runs this, and under sudo who called sudo. */
export async function sudoUser(given: string | undefined, env: NodeJS.ProcessEnv): Promise<SudoUser> {
  const { username, uid } = userInfo()
  if (given === undefined && uid !== 0) return { name: username, id: uid }
  const name = given ?? env['SUDO_USER']
  if (name === undefined || name === '' || (given === undefined && name === username))
    throw new VerbError('The rule is for the user whose agent measures power: name that user with --user.')
  const { exitCode, stdout } = name.startsWith('-') ? unknown : await ask('/usr/bin/id', ['-u', name])
  if (exitCode !== 0 || !/^\d+\n$/.test(stdout)) {
    throw new VerbError(`There is no user ${JSON.stringify(name)} on this machine.`)
  }
  return { name, id: Number(stdout) }
}

/** Shows the rule, has visudo check it and sudo install it. */
export async function installRule(user: SudoUser, io: CliIo): Promise<number> {
  const file = fragmentFile(user)
  const rule = fragmentFor(user)
  await checkRule(rule, io)
  io.stdout.write(`${file} will say:\n\n${rule}\nsudo asks for your password to write it.\n`)
  const { sudo } = macCommands
  const code = await runInTerminal(sudo, ['/bin/sh', '-c', installScript, 'sh', file], io, rule)
  if (code !== 0) {
    io.stderr.write(`metal-agent: ${file} was not written: sudo ended with exit code ${code}.\n`)
    return exitCodes.failed
  }
  const leave = await answered(leaveOf(user))
  if (!leave) {
    io.stdout.write(`${file} is written. ${notKnown(user)}\n`)
    return exitCodes.done
  }
  if (leave.intervalsMs.length < powerIntervalsMs.length) {
    io.stderr.write(
      `metal-agent: ${file} is written, but sudo does not use it: check that /etc/sudoers has the line "#includedir /private/etc/sudoers.d".\n`,
    )
    return exitCodes.failed
  }
  io.stdout.write(
    'Power can be measured. Turn it on with --apple-power-enabled, or with: metal-agent settings set apple-power-enabled on\n',
  )
  return exitCodes.done
}

export async function removeRule(user: SudoUser, io: CliIo): Promise<number> {
  const file = fragmentFile(user)
  const code = await runInTerminal(macCommands.sudo, ['/bin/rm', '-f', file], io, '')
  if (code !== 0) {
    io.stderr.write(`metal-agent: ${file} was not removed: sudo ended with exit code ${code}.\n`)
    return exitCodes.failed
  }
  io.stdout.write(`${file} is gone.\n`)
  return exitCodes.done
}

/** Whether sudo lets this user measure power, and by which rule. */
export async function ruleStatus(user: SudoUser, io: CliIo, json: boolean): Promise<number> {
  const file = fragmentFile(user)
  const isInstalled = await hasRuleFile(user)
  const leave = await answered(leaveOf(user))
  const { intervalsMs, tooWide } = leave ?? {}
  const message = leave ? whatIsAllowed(user, leave) : notKnown(user)
  const advice =
    tooWide === undefined ? [] : [`${tooWide} Remove it; metal-agent power install names exact command lines.`]
  if (json) {
    io.stdout.write(`${JSON.stringify({ file, isInstalled, intervalsMs, tooWide, message })}\n`)
  } else {
    const rule = `${file} is ${isInstalled === true ? 'installed' : 'not installed'}.`
    io.stdout.write([message, rule, ...advice].map((line) => `${line}\n`).join(''))
  }
  return intervalsMs !== undefined && intervalsMs.length > 0 ? exitCodes.done : exitCodes.failed
}

const whatIsAllowed = ({ name }: SudoUser, { intervalsMs }: SudoLeave): string =>
  intervalsMs.length > 0
    ? `sudo lets ${name} measure power without a password every ${intervalsMs.map(formatDuration).join(', ')}.`
    : `sudo does not let ${name} measure power without a password: run metal-agent power install.`

const notKnown = ({ name }: SudoUser): string =>
  `Whether sudo lets ${name} measure power is not known, because sudo asks for a password before it answers that about another user: have ${name} run metal-agent power status.`

/** Throws VerbError with what visudo says. */
async function checkRule(rule: string, io: CliIo): Promise<void> {
  const folder = await mkdtemp(path.join(io.temporaryDir, 'metalbar-'))
  try {
    const file = path.join(folder, 'rule')
    await writeFile(file, rule, { mode: 0o600 })
    const { exitCode, stdout, stderr } = await ask(visudo, ['-cf', file])
    if (exitCode !== 0) throw new VerbError(`visudo does not accept the rule: ${(stderr || stdout).trim()}`)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const ask = (command: string, args: readonly string[]) =>
  answered(askProgram({ command, args, env: plainEnvironment, timeLimitMs: askLimitMs }))

/** Throws VerbError where a program gave no answer. */
async function answered<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof ProgramError) throw new VerbError(error.message, { cause: error })
    throw error
  }
}

/**
 * The command asks for a password at the terminal, whatever it is given on standard input. Of the environment it gets what the terminal
 * is, and nothing else that a person or a program may have set. Throws VerbError.
 */
export async function runInTerminal(
  command: string,
  args: readonly string[],
  { env }: CliIo,
  input: string,
): Promise<number> {
  const { execa } = await import('execa')
  const { TERM } = env
  const terminal = { stdout: 'inherit', stderr: 'inherit', extendEnv: false, reject: false } as const
  const { exitCode, signal, cause } = await execa(command, args, {
    ...terminal,
    env: { ...plainEnvironment, ...(TERM !== undefined && { TERM }) },
    input,
  })
  if (exitCode === undefined && signal === undefined) {
    throw new VerbError(`${command} cannot be run: ${messageOf(cause)}.`, { cause })
  }
  return exitCode ?? exitCodes.failed
}
