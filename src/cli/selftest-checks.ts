import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { mkdir, realpath, rm, stat } from 'node:fs/promises'
import { connect, createServer, type AddressInfo, type Server } from 'node:net'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { serverArguments } from '../agent-core/memory/estimate/server-arguments.ts'
import type { CommandRunner } from '../agent-core/platform/command.ts'
import { coreLevels, knownLevels } from '../agent-core/platform/darwin-cores.ts'
import {
  parseDisplays,
  parseFootprints,
  parsePages,
  parseUncompressedFraction,
} from '../agent-core/platform/darwin-output.ts'
import { darwinCommands } from '../agent-core/platform/darwin.ts'
import type { HostInterface, Platform } from '../agent-core/platform/platform.ts'
import { chooseHostAddress, isVirtual } from '../agent-core/publishing/host-address.ts'
import { findLlamaServer } from '../agent-core/runtimes/llama-server.ts'
import { Ports } from '../agent-core/servers/ports.ts'
import { signalGroup } from '../agent-core/util/signal-group.ts'
import { formatBytes } from '../contract/format.ts'

/** `notHere`: this machine has not what the question is about. */
export type Verdict = 'asExpected' | 'different' | 'notHere' | 'couldNotAsk'

export interface Finding {
  readonly found: string
  readonly verdict: Verdict
}

/** What a check may ask with. */
export interface Asker {
  /** A command of the system, by its absolute path, within a time limit. */
  readonly run: CommandRunner
  readonly platform: Platform
  readonly env: NodeJS.ProcessEnv
  /** For what a check has to make. */
  readonly temporaryDir: string
  /** What a check leaves to be taken away once it has answered or its time is up; disposed from then on. */
  readonly leftovers: AsyncDisposableStack
}

/** One question about this machine that the agent relies on the answer of. */
export interface Check {
  readonly id: string
  readonly asks: string
  readonly expected: string
  /** Only a Mac can answer it. */
  readonly isForMacs: boolean
  /** Whatever it throws is a question that could not be asked. */
  readonly answer: (asker: Asker) => Promise<Finding>
}

export const judged = (isAsExpected: boolean, found: string): Finding => ({
  found,
  verdict: isAsExpected ? 'asExpected' : 'different',
})

export const notHere = (found: string): Finding => ({ found, verdict: 'notHere' })

export const notAsked = (why: string): Finding => ({ found: why, verdict: 'couldNotAsk' })

/** What a command printed, for a report: standard output, else standard error, else its exit code. */
export function printed({ exitCode, stdout, stderr = '' }: Awaited<ReturnType<CommandRunner>>): string {
  const text = [stdout, stderr].map((part) => part.trim()).find((part) => part !== '')
  return text === undefined ? `nothing, exit code ${exitCode}` : text.replaceAll(/\s+/g, ' ').slice(0, longestFound)
}

const longestFound = 300

interface ChildOptions {
  readonly cwd?: string
  /** It has a child that ends at once, and that it never reaps: a shell that became another program knows nothing of its children. */
  readonly hasZombie?: boolean
}

/** A process of ours, in a group of its own, that does nothing until the leftovers are taken away. Throws where it cannot be started. */
export async function sleepingChild(
  leftovers: AsyncDisposableStack,
  { cwd, hasZombie = false }: ChildOptions = {},
): Promise<number> {
  if (leftovers.disposed) throw new Error('the time is up')
  const script = `${hasZombie ? 'sleep 0.1 & ' : ''}echo up; exec sleep ${longestSeconds}`
  // Not execa: it is looked at while it runs, as the leader of a group of its own, and may end only by the signal below.
  const child = spawn('/bin/sh', ['-c', script], {
    cwd,
    env: { PATH: '/bin:/usr/bin' },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  })
  const ended = once(child, 'close')
  const { pid } = child
  if (pid !== undefined) {
    leftovers.defer(async () => {
      signalGroup(pid, 'SIGKILL')
      await ended
    })
  }
  await Promise.race([once(child.stdout, 'data'), ended])
  if (pid === undefined || child.exitCode !== null) throw new Error('no process could be started')
  return pid
}

/** Asked again for a while: a process that becomes another program, or ends, takes a moment. */
export async function settled<T>(ask: () => Promise<T>, isSettled: (answer: T) => boolean): Promise<T> {
  const until = performance.now() + settleMs
  let answer = await ask()
  while (!isSettled(answer) && performance.now() < until) {
    await setTimeout(settleMs / 20)
    answer = await ask()
  }
  return answer
}

const settleMs = 2_000

/** It ends by itself where this process was killed before it could end it. */
const longestSeconds = 60

const footprintOf = ({ run }: Asker, pid: number) =>
  run(darwinCommands.footprint, ['--noCategories', '-f', 'bytes', '-p', String(pid)])

/** Bytes by the name of their pages. */
async function pagesOf({ run }: Asker): Promise<(name: string) => number> {
  const { stdout } = await run(darwinCommands.vmStat, [])
  const bytes = parsePages(stdout)?.bytes
  return (name) => bytes?.get(name) ?? Number.NaN
}

const available: Check = {
  id: 'memory-pages',
  asks: 'vm_stat counts every page either as backed by a file or as anonymous',
  expected: 'active + inactive + speculative + throttled = file-backed + anonymous, to 2 %',
  isForMacs: true,
  answer: async (asker) => {
    const pages = await pagesOf(asker)
    const sum = (...names: readonly string[]) => names.reduce((total, name) => total + pages(name), 0)
    const pageable = sum('Pages active', 'Pages inactive', 'Pages speculative', 'Pages throttled')
    const split = sum('File-backed pages', 'Anonymous pages')
    const { totalBytes, availableBytes } = await asker.platform.memory()
    const free = `free ${formatBytes(pages('Pages free'))}, file-backed ${formatBytes(pages('File-backed pages'))}, purgeable ${formatBytes(pages('Pages purgeable'))}`
    const found = `${formatBytes(pageable)} = ${formatBytes(split)}; ${free}: ${formatBytes(availableBytes)} of ${formatBytes(totalBytes)} available`
    return judged(Math.abs(pageable - split) <= 0.02 * pageable, found)
  },
}

const pressure: Check = {
  id: 'pressure-level',
  asks: 'the kernel says how short of memory it is',
  expected: 'normal, warning or critical',
  isForMacs: false,
  answer: async ({ platform }) => {
    const level = await platform.memoryPressureLevel()
    if (level !== undefined) return judged(true, level)
    return platform.name === 'linux' ? notHere('this kernel has no /proc/pressure') : judged(false, 'it does not say')
  },
}

const uncompressed: Check = {
  id: 'uncompressed',
  asks: 'what memory_pressure calls free is what is neither wired nor compressed',
  expected: 'active + inactive + free + speculative, to 10 points',
  isForMacs: true,
  answer: async (asker) => {
    const [{ stdout }, pages, { totalBytes }] = await Promise.all([
      asker.run(darwinCommands.memoryPressure, ['-Q']),
      pagesOf(asker),
      asker.platform.memory(),
    ])
    const fraction = parseUncompressedFraction(stdout)
    const names = ['Pages active', 'Pages inactive', 'Pages free', 'Pages speculative']
    const sum = names.reduce((total, name) => total + pages(name), 0) / totalBytes
    if (fraction === undefined) return judged(false, 'memory_pressure -Q does not say')
    return judged(Math.abs(fraction - sum) <= 0.1, `${percent(fraction)}, by the pages ${percent(sum)}`)
  },
}

const gpuLimit: Check = {
  id: 'gpu-limit',
  asks: 'the GPU limit can be read without root',
  expected: 'mebibytes, or 0 if macOS decides',
  isForMacs: true,
  answer: async ({ run }) => {
    const answer = await run(darwinCommands.sysctl, ['-n', 'iogpu.wired_limit_mb'])
    return judged(/^\d+$/.test(answer.stdout.trim()), printed(answer))
  },
}

const ownFootprint: Check = {
  id: 'footprint-own',
  asks: 'footprint reports what a process of ours holds',
  expected: 'bytes, within a second',
  isForMacs: true,
  answer: async (asker) => {
    const started = performance.now()
    const answer = await footprintOf(asker, process.pid)
    const ms = Math.round(performance.now() - started)
    const bytes = parseFootprints(answer.stdout, [process.pid]).get(process.pid)
    if (bytes === undefined) return judged(false, printed(answer))
    return judged(ms < 1_000, `${formatBytes(bytes)} in ${ms} ms`)
  },
}

/** macOS counts to 99999, and seldom so far. */
const highestPid = 99_998

const goneFootprint: Check = {
  id: 'footprint-gone',
  asks: 'footprint of a process that is gone',
  expected: 'a sentence with Unable to find pid, and no figure',
  isForMacs: true,
  answer: async (asker) => {
    let pid = highestPid
    while (await asker.platform.isRunning({ pid, startTime: '' })) pid -= 1
    const answer = await footprintOf(asker, pid)
    const text = `${answer.stdout}\n${answer.stderr ?? ''}`
    const isSaid = text.includes('Unable to find pid') && !parseFootprints(answer.stdout, [pid]).has(pid)
    const strangers = /partial name/.test(text) ? ' (it looked for the number in names)' : ''
    return judged(isSaid, `${printed({ ...answer, stdout: '' })}${strangers}`)
  },
}

const hardenedFootprint: Check = {
  id: 'footprint-hardened',
  asks: 'footprint of a process with the hardened runtime, of this user',
  expected: 'bytes',
  isForMacs: true,
  answer: async (asker) => {
    const { stdout } = await asker.run(darwinCommands.ps, ['-xww', '-o', 'pid=,comm='])
    const [, pid] = /^ *(\d+) +\/System\/Library\/CoreServices\/\S*\/(?:Finder|Dock)$/m.exec(stdout) ?? []
    if (pid === undefined) return notAsked('neither the Finder nor the Dock runs')
    const answer = await footprintOf(asker, Number(pid))
    const bytes = parseFootprints(answer.stdout, [Number(pid)]).get(Number(pid))
    return judged(bytes !== undefined, bytes === undefined ? printed(answer) : formatBytes(bytes))
  },
}

const servers = /^ *(\d+) +(\S*llama-server .*)$/gm

const mappedFootprint: Check = {
  id: 'footprint-mapped',
  asks: 'footprint leaves the weights of a mapped model out',
  expected: 'less than half of the file where it is mapped, at least the file with --no-mmap, within 10 s',
  isForMacs: true,
  answer: async (asker) => {
    const { stdout } = await asker.run(darwinCommands.ps, ['-xww', '-o', 'pid=,command='])
    const looks: Finding[] = []
    for (const [, pid = '', commandLine = ''] of stdout.matchAll(servers)) {
      if (looks.length < mostServers) looks.push(...(await serverFootprint(asker, Number(pid), commandLine)))
    }
    if (looks.length === 0) return notAsked('no llama-server runs: serve a model, and ask again')
    const isAsExpected = looks.every(({ verdict }) => verdict === 'asExpected')
    return judged(isAsExpected, looks.map(({ found }) => found).join('; '))
  },
}

const mostServers = 3
const slowMs = 10_000

async function serverFootprint(asker: Asker, pid: number, commandLine: string): Promise<Finding[]> {
  const [, model] = / (?:-m|--model) (.+?)(?= -|$)/.exec(commandLine) ?? []
  const fileBytes = model === undefined ? undefined : (await stat(model).catch(() => undefined))?.size
  if (fileBytes === undefined) return []
  const { isMapped } = serverArguments(commandLine.split(' '))
  const started = performance.now()
  const answer = await footprintOf(asker, pid)
  const ms = Math.round(performance.now() - started)
  const bytes = parseFootprints(answer.stdout, [pid]).get(pid)
  if (bytes === undefined) return [judged(false, printed(answer))]
  const how = isMapped ? 'mapped' : 'with --no-mmap'
  const isAsExpected = (isMapped ? bytes < fileBytes / 2 : bytes >= fileBytes) && ms < slowMs
  return [judged(isAsExpected, `${formatBytes(bytes)} for a file of ${formatBytes(fileBytes)} ${how}, in ${ms} ms`)]
}

const applications: Check = {
  id: 'applications',
  asks: 'the biggest applications are named',
  expected: 'three, each with what it holds',
  isForMacs: false,
  answer: async ({ platform }) => {
    const biggest = await platform.biggestProcesses(3)
    return judged(biggest.length > 0, biggest.map(({ bytes }) => formatBytes(bytes)).join(', ') || 'none')
  },
}

const percent = (fraction: number): string => `${Math.round(100 * fraction)} %`

export const memoryChecks: readonly Check[] = [
  available,
  pressure,
  uncompressed,
  gpuLimit,
  ownFootprint,
  goneFootprint,
  hardenedFootprint,
  mappedFootprint,
  applications,
]

/** Listens until it is disposed. Throws where somebody else does. */
async function listening(
  port: number,
  host: string,
): Promise<{ readonly port: number; readonly server: Server } & AsyncDisposable> {
  const server = createServer().listen(port, host)
  await once(server, 'listening')
  const { port: own } = server.address() as AddressInfo
  return {
    port: own,
    server,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}

const besides = { darwin: 'is allowed', linux: 'is refused' } as const

const portBeside: Check = {
  id: 'port-beside',
  asks: 'listening on all addresses at a port that another program has on loopback',
  expected: 'is allowed on macOS, refused on Linux',
  isForMacs: false,
  answer: async ({ platform }) => {
    await using taken = await listening(0, '127.0.0.1')
    const found = await beside(taken.port)
    return judged(found === besides[platform.name], found)
  },
}

async function beside(port: number): Promise<string> {
  try {
    await using _ = await listening(port, '0.0.0.0')
    return besides.darwin
  } catch {
    return besides.linux
  }
}

const portFree: Check = {
  id: 'port-free',
  asks: 'a port that another program has on loopback counts as taken',
  expected: 'taken',
  isForMacs: false,
  answer: async () => {
    await using taken = await listening(0, '127.0.0.1')
    const isFree = await new Ports().isFree(taken.port)
    return judged(!isFree, isFree ? 'free' : 'taken')
  },
}

const listeners: Check = {
  id: 'listeners',
  asks: 'who listens on a port can be found',
  expected: 'only this process',
  isForMacs: false,
  answer: async ({ platform }) => {
    await using own = await listening(0, '127.0.0.1')
    const groupId = (await platform.process(process.pid))?.groupId ?? 0
    const { ours, others } = await platform.portListeners(own.port, groupId)
    const isOurs = ours.length === 1 && ours[0] === process.pid && others.length === 0
    return judged(isOurs, isOurs ? 'only this process' : `${ours.length} of ours, ${others.length} others`)
  },
}

const connections: Check = {
  id: 'connections',
  asks: 'connections to a port are counted',
  expected: '1 of 1',
  isForMacs: false,
  answer: async ({ platform }) => {
    await using own = await listening(0, '127.0.0.1')
    const accepted = once(own.server, 'connection')
    const client = connect(own.port, '127.0.0.1')
    try {
      await Promise.all([once(client, 'connect'), accepted])
      const count = await platform.establishedConnections(own.port)
      return judged(count === 1, `${count} of 1`)
    } finally {
      client.destroy()
    }
  },
}

const hostAddress: Check = {
  id: 'host-address',
  asks: 'which interface is published if the API server is on this machine',
  expected: 'a network card such as en0, or Tailscale if there is none',
  isForMacs: false,
  answer: ({ platform }) => Promise.resolve(publishedInterface(platform.interfaces())),
}

function publishedInterface(interfaces: readonly HostInterface[]): Finding {
  const chosen = chooseHostAddress(interfaces, undefined)
  const isAlone = interfaces.every(({ internal }) => internal)
  if (chosen.kind === 'none') return isAlone ? notHere('no network but loopback') : judged(false, 'none')
  const own = interfaces.find(({ address }) => address === chosen.address)
  const names = [...new Set(interfaces.filter(({ family }) => family === 'IPv4').map((one) => one.name))]
  const found = `${chosen.why}, of ${names.join(', ')}`
  const isCard = chosen.why.includes('tailnet') || (own !== undefined && !isVirtual(own))
  return isCard ? judged(true, found) : notHere(`no network card: ${found}`)
}

export const networkChecks: readonly Check[] = [portBeside, portFree, listeners, connections, hostAddress]

const psUsage: Check = {
  id: 'ps-usage',
  asks: 'ps reports the memory and processor time of a process',
  expected: 'kilobytes and minutes, without an entitlement',
  isForMacs: true,
  answer: async ({ run }) => {
    const answer = await run(darwinCommands.ps, ['-ww', '-o', 'rss=,time=', '-p', String(process.pid)])
    return judged(/^ *\d+ +\d+:\d\d\.\d\d *$/.test(answer.stdout), printed(answer))
  },
}

/** How far two clocks may differ that are read a moment apart, in whole seconds. */
const closeMs = 5_000

const startTime: Check = {
  id: 'start-time',
  asks: 'ps reports in UTC when a process began',
  expected: 'when this command was started, to 5 s',
  isForMacs: true,
  answer: async ({ platform }) => {
    const facts = await platform.process(process.pid)
    if (facts === undefined) return judged(false, 'this process is not in the table')
    const ms = Date.parse(`${facts.startTime} UTC`)
    const distance = Math.round((ms - performance.timeOrigin) / 1_000)
    return judged(Math.abs(ms - performance.timeOrigin) < closeMs, `${facts.startTime}, ${distance} s from it`)
  },
}

const loginSession: Check = {
  id: 'login-session',
  asks: 'loginwindow of this login is found by its effective user',
  expected: 'uid of this user, whatever ruid',
  isForMacs: true,
  answer: async ({ run, platform }) => {
    const { stdout } = await run(darwinCommands.ps, ['-axww', '-o', 'uid=,ruid=,pid=,comm='])
    const rows = stdout.split('\n').filter((row) => /loginwindow\)?$/.test(row.trim()))
    if (rows.length === 0) return notAsked('no loginwindow runs: is somebody logged in at the screen?')
    const seen = rows.map((row) => {
      const [uid, ruid, pid] = row.trim().split(/\s+/)
      return `uid ${uid} ruid ${ruid} pid ${pid}`
    })
    const session = await platform.loginSession()
    const own = session === undefined ? `none is of uid ${process.geteuid?.()}` : `session ${session}`
    return judged(session !== undefined, `${seen.join('; ')}: ${own}`)
  },
}

const bootId: Check = {
  id: 'boot-id',
  asks: 'a boot has an id',
  expected: 'a UUID',
  isForMacs: false,
  answer: async ({ platform }) => {
    const id = await platform.bootId()
    return judged(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id), id.replaceAll(/[0-9a-f]/gi, 'x'))
  },
}

const zombie: Check = {
  id: 'zombie',
  asks: 'a process that ended and was not reaped counts as gone',
  expected: 'only its parent in the group',
  isForMacs: false,
  answer: async ({ platform, leftovers }) => {
    const parent = await sleepingChild(leftovers, { hasZombie: true })
    const members = await settled(
      () => platform.processGroup(parent),
      (group) => group.length === 1,
    )
    const found = members.map(({ pid, commandLine }) => (pid === parent ? 'its parent' : commandLine))
    return judged(found.length === 1 && found[0] === 'its parent', found.join(', ') || 'nothing')
  },
}

const environment: Check = {
  id: 'environment',
  asks: 'the environment of a process of ours can be read',
  expected: 'the value it was started with',
  isForMacs: false,
  // This program itself: macOS tells nobody the environment of what Apple ships, such as a shell.
  answer: async ({ platform }) => {
    const [name, value] = Object.entries(process.env).find(([, text = '']) => /^\S+$/.test(text)) ?? []
    if (name === undefined) return notAsked('this program was started without an environment')
    const found = await platform.variableOf(process.pid, name)
    return judged(found === value, found === undefined ? 'not found' : found === value ? 'the same' : 'another value')
  },
}

/** Letters of one to three bytes, a blank, a backslash and a caret. */
const awkwardName = 'Büro 日本 a\\b 2^10'

const workplace: Check = {
  id: 'workplace',
  asks: 'the working directory of a process is read letter by letter',
  expected: `…/${awkwardName}`,
  isForMacs: false,
  answer: async ({ platform, temporaryDir, leftovers }) => {
    // At once, so that nothing is made that is not known of when the time is up.
    const base = mkdtempSync(path.join(temporaryDir, 'metal-agent-selftest-'))
    leftovers.defer(() => rm(base, { recursive: true, force: true }))
    const cwd = path.join(base, awkwardName)
    await mkdir(cwd)
    const child = await sleepingChild(leftovers, { cwd })
    const place = (await platform.workplaces()).find(({ pid }) => pid === child)
    const [found, wanted] = [place?.workingDirectory, await realpath(cwd)]
    return judged(found === wanted, found === undefined ? 'not found' : `…/${path.basename(found)}`)
  },
}

export const processChecks: readonly Check[] = [
  psUsage,
  startTime,
  loginSession,
  bootId,
  zombie,
  environment,
  workplace,
]

const cores: Check = {
  id: 'cores',
  asks: 'the levels of cores have names, and those that save power are not counted',
  expected: 'Super, Performance, Efficiency or Standard, each with its number',
  isForMacs: true,
  answer: async ({ run, platform }) => {
    const levels = await coreLevels(async (name) => (await run(darwinCommands.sysctl, ['-n', name])).stdout)
    const performance = await platform.performanceCores()
    const isKnown = levels.every(({ name, cores }) => knownLevels.includes(name) && cores !== undefined)
    const told = levels.map(({ name, cores }) => `${name || 'no name'} ${cores ?? 'without a number'}`)
    const found = `${told.join(', ') || 'no level'}: ${performance ?? 'unknown'} count`
    return judged(isKnown && levels.length > 0 && performance !== undefined, found)
  },
}

const metal: Check = {
  id: 'metal',
  asks: 'system_profiler says in JSON that the GPU has Metal',
  expected: 'a key that the agent knows',
  isForMacs: true,
  answer: async ({ run }) => {
    const answer = await run(darwinCommands.systemProfiler, ['SPDisplaysDataType', '-json'])
    const all = [...answer.stdout.matchAll(/"(spdisplays_\w+)" *: *"(\w*)"/gi)]
    const seen = all.filter(([, key = '']) => /metal|mtl/i.test(key))
    const found = seen.map(([, key, value]) => `${key} ${value}`).join(', ')
    return judged(parseDisplays(answer.stdout) === true, found || printed(answer))
  },
}

/** Longest path of a unix socket on macOS that the agent uses. */
const socketBytes = 100

const temporaryFolder: Check = {
  id: 'temporary-folder',
  asks: 'TMPDIR is the folder of this user, also under ssh and launchd',
  expected: 'as getconf says, short enough for a socket',
  isForMacs: true,
  answer: async ({ run, env }) => {
    const { stdout } = await run('/usr/bin/getconf', ['DARWIN_USER_TEMP_DIR'])
    const [given, own] = [env['TMPDIR'], stdout.trim()]
    if (own === '') return notAsked('getconf does not say')
    const started = env['SSH_CONNECTION'] === undefined ? 'not over ssh' : 'over ssh'
    const service = env['XPC_SERVICE_NAME'] ?? '0'
    const by = service === '0' ? 'from a terminal' : `by launchd as ${service}`
    const is = given === undefined ? 'not set' : plain(given) === plain(own) ? 'the same' : 'another'
    const isShort = Buffer.byteLength(own) < socketBytes - 30
    return judged(is === 'the same' && isShort, `${is}, ${Buffer.byteLength(own)} bytes, ${started}, ${by}`)
  },
}

const plain = (folder: string): string => folder.replace(/^\/private/, '').replace(/(?<!\/)\/+$/, '')

const llamaServer: Check = {
  id: 'llama-server',
  asks: 'which llama-server serves models if no flag names one',
  expected: 'a program that Homebrew or PATH has',
  isForMacs: false,
  answer: async ({ platform, env }) => {
    const binary = await findLlamaServer({ system: platform.name, path: env['PATH'] })
    return binary.kind === 'found' ? judged(true, binary.path) : notHere(binary.message)
  },
}

export const machineChecks: readonly Check[] = [cores, metal, llamaServer, temporaryFolder]
