import { stat } from 'node:fs/promises'
import { formatBytes } from '../../contract/format.ts'
import { serverArguments } from '../../agent-core/memory/estimate/server-arguments.ts'
import { darwinCommands } from '../../agent-core/platform/darwin.ts'
import { parseFootprints, parsePages, parseUncompressedFraction } from '../../agent-core/platform/darwin-output.ts'
import { judged, notAsked, notHere, printed, type Asker, type Check, type Finding } from './check.ts'

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
  asks: 'the GPU limit is told without root',
  expected: 'mebibytes, or 0 where macOS decides',
  isForMacs: true,
  answer: async ({ run }) => {
    const answer = await run(darwinCommands.sysctl, ['-n', 'iogpu.wired_limit_mb'])
    return judged(/^\d+$/.test(answer.stdout.trim()), printed(answer))
  },
}

const ownFootprint: Check = {
  id: 'footprint-own',
  asks: 'footprint tells what a process of ours holds',
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
    const isTold = text.includes('Unable to find pid') && !parseFootprints(answer.stdout, [pid]).has(pid)
    const strangers = /partial name/.test(text) ? ' (it looked for the number in names)' : ''
    return judged(isTold, `${printed({ ...answer, stdout: '' })}${strangers}`)
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
