import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, truncate, writeFile } from 'node:fs/promises'
import { constants, tmpdir } from 'node:os'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { strFromU8, unzipSync } from 'fflate'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { hostPlatform } from '../../../src/agent-core/platform/host.ts'
import { PlatformError, type HostInterface } from '../../../src/agent-core/platform/platform.ts'
import type { CliIo } from '../../../src/cli/io.ts'
import { main } from '../../../src/cli/main.ts'
import { asFinding, checks, runSelftest, type SelftestOptions } from '../../../src/cli/selftest.ts'
import { doctorReport } from '../../../src/contract/doctor.ts'
import { eventually } from '../../support/eventually.ts'
import { allProcesses } from '../../support/run-warden/processes.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'
import { forgedMac, type ForgedMac } from '../../support/forged-mac.ts'

const reportSchema = z.object({
  system: z.string(),
  lines: z.array(z.object({ id: z.string(), found: z.string(), verdict: z.string(), ms: z.number() })),
  onlyOnMacs: z.array(z.string()),
})

async function selftest(
  platform: NodeJS.Platform,
  options: Partial<SelftestOptions> & { readonly json?: boolean } = {},
  { isTTY = false, homeDir = '/Users/ada', temporaryDir = tmpdir(), env = {} } = {},
) {
  const written = { out: '', err: '' }
  const io: CliIo = {
    stdout: { write: (text) => (written.out += text) },
    stderr: { isTTY, columns: 60, write: (text) => (written.err += text) },
    env: { TMPDIR: '/private/var/folders/zz/zyx/T', HOME: '/Users/ada', ...env },
    platform,
    homeDir,
    temporaryDir,
    cwd: '/',
    windowFolder: '/',
  }
  const code = await runSelftest(io, { json: true, ...options })
  return { code, ...written }
}

async function onMac(forged: ForgedMac = {}) {
  const { code, out } = await selftest('darwin', { run: forgedMac(forged) })
  const report = reportSchema.parse(JSON.parse(out))
  return { code, report, line: (id: string) => report.lines.find((line) => line.id === id) }
}

test('a Mac that is as the agent takes it to be is asked everything, and differs only where Linux is below it', async () => {
  await using folder = await temporaryFolder()
  const model = path.join(folder.dir, 'My model.gguf')
  await writeFile(model, '')
  await truncate(model, 40e9)
  const { code, report, line } = await onMac({ model })
  expect(report.lines.map(({ id }) => id)).toEqual(checks.map(({ id }) => id))
  // Whether Homebrew has a llama-server here is not the forged Mac's to say.
  const others = report.lines.filter(({ id }) => id !== 'llama-server')
  expect(others.filter(({ verdict }) => verdict !== 'asExpected')).toMatchObject([
    { id: 'port-beside', found: 'is refused', verdict: 'different' },
  ])
  expect([report.system, report.onlyOnMacs, code]).toEqual(['macOS 27.0.1 (27A81), Apple M6', [], 1])
  expect(line('footprint-mapped')?.found).toMatch(/^18\.3 GB for a file of 40\.0 GB mapped, in \d+ ms$/)
  expect(['cores', 'login-session', 'footprint-gone', 'workplace'].map((id) => line(id)?.found)).toEqual([
    'Super 2, Performance 4, Efficiency 6: 6 count',
    expect.stringMatching(/^uid 501 ruid 0 pid 388: session 388 /),
    expect.stringMatching(/^footprint: Unable to find pid for process matching '99998'/),
    '…/Büro 日本 a\\b 2^10',
  ])
})

test('a Mac that is different is said to be, each line for itself', async () => {
  const unnamed = { exitCode: 0, stdout: '' }
  const answers: ForgedMac['answers'] = {
    'hw.perflevel1.name': unnamed,
    'iogpu.wired_limit_mb': { exitCode: 1, stdout: '', stderr: "sysctl: unknown oid 'iogpu.wired_limit_mb'\n" },
    '-json': new PlatformError('/usr/sbin/system_profiler did not answer within 20000 ms.'),
    '-p 640': { exitCode: 1, stdout: '', stderr: 'footprint: Unable to analyze process with pid 640 (try as root?)' },
    'kern.memorystatus_vm_pressure_level': { exitCode: 0, stdout: '3' },
    DARWIN_USER_TEMP_DIR: { exitCode: 0, stdout: '/Users/ada/T/' },
  }
  const { line } = await onMac({ lacksUsage: true, answers })
  const verdicts = [
    'cores',
    'gpu-limit',
    'metal',
    'footprint-hardened',
    'pressure-level',
    'temporary-folder',
    'ps-usage',
  ]
  expect(verdicts.map((id) => [line(id)?.verdict, line(id)?.found])).toEqual([
    ['different', 'Super 2, no name 4, Efficiency 6: 6 count'],
    ['different', "sysctl: unknown oid 'iogpu.wired_limit_mb'"],
    ['couldNotAsk', '/usr/sbin/system_profiler did not answer within 20000 ms.'],
    ['different', 'footprint: Unable to analyze process with pid 640 (try as root?)'],
    ['different', 'it does not say'],
    ['different', 'another, 13 bytes, not over ssh, from a terminal'],
    ['different', 'ps: rss: requires entitlement'],
  ])
  expect(['start-time', 'environment', 'listeners'].map((id) => line(id)?.verdict)).toEqual([
    'asExpected',
    'asExpected',
    'asExpected',
  ])
})

test('on Linux what makes sense there is asked, and what is for a Mac is named', async () => {
  const { code, out, err } = await selftest('linux', { json: false }, { isTTY: true })
  expect(out).toMatch(/^metal-agent selftest \S+ on Linux /)
  expect(out).toMatch(
    /^as expected {4}a port that another program has on loopback counts as taken \(port-free\)\n {2}expected {5}taken\n {2}found {8}taken$/m,
  )
  expect(out).toMatch(
    /^\d+ as expected, 0 different, \d not here, 0 could not be asked\.\nFor a Mac only: cores, metal, .*footprint-mapped\.$/m,
  )
  expect(out).not.toContain('DIFFERENT')
  expect(err).toContain('1 of ')
  expect(code).toBe(0)
})

test('the llama-server that would serve is named, or how it is installed', async () => {
  await using folder = await temporaryFolder()
  const lineOn = async (PATH: string) => {
    const { out } = await selftest('linux', {}, { env: { PATH } })
    return reportSchema.parse(JSON.parse(out)).lines.find(({ id }) => id === 'llama-server')
  }
  const before = await lineOn(folder.dir)
  const program = path.join(folder.dir, 'llama-server')
  await writeFile(program, '#!/bin/sh\n', { mode: 0o755 })
  expect([before, await lineOn(folder.dir)]).toMatchObject([
    { verdict: 'notHere', found: expect.stringContaining('install llama.cpp') as unknown },
    { verdict: 'asExpected', found: program },
  ])
})

test('a question that is not answered in time could not be asked, and the rest goes on', async () => {
  const never = new Promise<never>(() => undefined)
  const platform = Object.assign(hostPlatform(), { bootId: () => never, memoryPressureLevel: () => never })
  const { out } = await selftest('linux', { platform, checkLimitMs: 1_500 })
  const { lines } = reportSchema.parse(JSON.parse(out))
  expect(lines.filter(({ verdict }) => verdict === 'couldNotAsk').map(({ id, found }) => [id, found])).toEqual([
    ['boot-id', 'no answer within 2 s'],
    ['pressure-level', 'no answer within 2 s'],
  ])
})

test('what a sound machine does not have is not here, which is no failure', async () => {
  const card = (name: string, address: string) =>
    ({ name, address, family: 'IPv4', netmask: '255.255.255.0', internal: name === 'lo' }) as const
  const loopback = card('lo', '127.0.0.1')
  const found = async (interfaces: readonly HostInterface[]) => {
    const platform = Object.assign(hostPlatform(), {
      interfaces: () => interfaces,
      memoryPressureLevel: () => Promise.resolve(undefined),
    })
    const { code, out } = await selftest('linux', { platform })
    const { lines } = reportSchema.parse(JSON.parse(out))
    const ids = ['host-address', 'pressure-level']
    return [code, ...ids.map((id) => lines.find((line) => line.id === id)?.verdict)]
  }
  expect([
    await found([loopback, card('br0', '192.168.1.20')]),
    await found([loopback]),
    await found([loopback, card('virbr0', '192.168.122.1')]),
    await found([loopback, card('docker0', '172.17.0.1')]),
  ]).toEqual([
    [0, 'asExpected', 'notHere'],
    [0, 'notHere', 'notHere'],
    [0, 'notHere', 'notHere'],
    [1, 'different', 'notHere'],
  ])
})

test.for([
  ['/Users/ada', '~/T is not /Users/adam/T'],
  ['/', '/Users/ada/T is not /Users/adam/T'],
  ['', '/Users/ada/T is not /Users/adam/T'],
])('the report names no person: home %s', async ([homeDir = '', found = '']) => {
  const bootId = () => Promise.reject(new PlatformError('/Users/ada/T is not /Users/adam/T'))
  const { out } = await selftest('linux', { platform: Object.assign(hostPlatform(), { bootId }) }, { homeDir })
  expect(reportSchema.parse(JSON.parse(out)).lines.find(({ id }) => id === 'boot-id')?.found).toBe(found)
})

test('a question whose time is up leaves no process and no folder', async () => {
  await using folder = await temporaryFolder()
  const host = hostPlatform()
  const asked: number[] = []
  const never = (pid: number) => {
    asked.push(pid)
    return new Promise<never>(() => undefined)
  }
  const platform = Object.assign(hostPlatform(), {
    processGroup: never,
    workplaces: async () => {
      const own = (await host.workplaces()).find(({ workingDirectory }) => workingDirectory.startsWith(folder.dir))
      return never(own?.pid ?? 0)
    },
  })
  await selftest('linux', { platform, checkLimitMs: 1_500 }, { temporaryDir: folder.dir })
  expect([asked.length, await Promise.all(asked.map((pid) => host.process(pid))), await readdir(folder.dir)]).toEqual([
    2,
    [undefined, undefined],
    [],
  ])
})

test('stopped in the middle of a question it asks nothing more and leaves no process and no folder', async () => {
  await using folder = await temporaryFolder()
  const stop = new AbortController()
  const asked: number[] = []
  const platform = Object.assign(hostPlatform(), {
    processGroup: (pid: number) => {
      asked.push(pid)
      stop.abort()
      return new Promise<never>(() => undefined)
    },
  })
  // Longer than this test may take.
  const options = { platform, stop: stop.signal, checkLimitMs: 600_000 }
  const { out } = await selftest('linux', options, { temporaryDir: folder.dir })
  const left = await Promise.all(asked.map((pid) => platform.process(pid)))
  expect([asked.length, left, await readdir(folder.dir), out]).toEqual([1, [undefined], [], ''])
})

test('as a command it ends by Ctrl-C as shells expect it, and its processes with it', async () => {
  const command = path.join(import.meta.dirname, '../../../src/cli/metal-agent.ts')
  const child = spawn(process.execPath, [command, 'selftest'], { stdio: 'ignore' })
  const ended = once(child, 'exit')
  const started = await eventually(() => {
    const own = allProcesses().filter(({ parent }) => parent === child.pid)
    return own.length > 0 && own
  })
  child.kill('SIGINT')
  const [code] = (await ended) as [number | null]
  const left = allProcesses().filter(({ pid }) => started.some((one) => one.pid === pid))
  expect([code, left]).toEqual([128 + constants.signals.SIGINT, []])
})

test('a process that was ended by somebody else is no failure of the question', async () => {
  const host = hostPlatform()
  const ended: number[] = []
  const workplaces = async () => {
    const all = await host.workplaces()
    for (const { pid } of all.filter(({ workingDirectory }) => workingDirectory.includes('metal-agent-selftest-'))) {
      process.kill(-pid, 'SIGKILL')
      while ((await host.process(pid)) !== undefined) await setImmediate()
      ended.push(pid)
    }
    return all
  }
  const { out } = await selftest('linux', { platform: Object.assign(hostPlatform(), { workplaces }) })
  const { lines } = reportSchema.parse(JSON.parse(out))
  expect([ended.length, lines.find(({ id }) => id === 'workplace')]).toEqual([
    1,
    expect.objectContaining({ verdict: 'asExpected' }),
  ])
})

test('what it finds is told by the doctor too, where a person asks for it: what differs is a failure, what is not here does not apply', async () => {
  const line = { id: 'zombie', asks: 'a process is gone', expected: 'gone', ms: 1 }
  expect(
    (['asExpected', 'different', 'notHere', 'couldNotAsk'] as const).map((verdict) => {
      const found = asFinding({ ...line, found: 'still there', verdict })
      return [found.id, found.verdict, found.says, found.action?.shell]
    }),
  ).toEqual([
    ['selftest-zombie', 'pass', 'a process is gone: still there.', undefined],
    ['selftest-zombie', 'fail', 'Expected: gone. Found: still there.', 'metal-agent selftest'],
    ['selftest-zombie', 'notApplicable', 'a process is gone: still there.', undefined],
    ['selftest-zombie', 'notApplicable', 'a process is gone: still there.', undefined],
  ])
  await using folder = await temporaryFolder()
  const written = { out: '' }
  const io: CliIo = {
    stdout: { write: (text) => (written.out += text) },
    stderr: { write: () => true },
    env: { PATH: '/usr/bin:/bin' },
    platform: 'linux',
    ...{ homeDir: folder.dir, temporaryDir: folder.dir, cwd: folder.dir, windowFolder: '/' },
  }
  const asked = async (...more: string[]) => {
    written.out = ''
    await main(['doctor', '--json', '--state-dir', folder.dir, ...more], io)
    return doctorReport.parse(JSON.parse(written.out)).findings.map(({ id }) => id)
  }
  const own = await asked()
  expect(own.filter((id) => id.startsWith('selftest-'))).toEqual([])
  const onLinux = checks.filter(({ isForMacs }) => !isForMacs).map(({ id }) => `selftest-${id}`)
  expect(await asked('--selftest')).toEqual([...own, ...onLinux])

  await main(['diagnose', '--yes', '--selftest', '--state-dir', folder.dir, '--output', 'report.zip'], io)
  const files = unzipSync(await readFile(path.join(folder.dir, 'report.zip')))
  const report = reportSchema.parse(JSON.parse(strFromU8(files['selftest.json'] ?? new Uint8Array())))
  expect(report.lines.map(({ id }) => `selftest-${id}`)).toEqual(onLinux)
})
