import { execFileSync } from 'node:child_process'
import { access, mkdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { onPath } from '../../tasks/setup/tools.ts'
import { AgentProcess } from '../support/agent-process.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { hostileModels, hostileWholeSpecs } from '../support/hostile-specs.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { skipWhen, useLlamaServer } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const llamaServer = useLlamaServer()
const apiVersion = 'inference.llmkube.dev/v1alpha1'
/** `SECURITY_SPECS=300` asks fifteen times as many. */
const specCount = Number(process.env['SECURITY_SPECS'] ?? 20)
/** As many at once as a busy machine answers in time. */
const batchSize = 20
const patienceMs = 110_000

const statusShape = z.object({
  status: z.object({
    schedulingStatus: z.string().default(''),
    conditions: z.array(z.looseObject({ type: z.string(), reason: z.string(), message: z.string() })),
  }),
})

/** A simulated cluster, and an agent with the real llama-server whose Models may name the files below `models`. */
async function world(args: readonly string[] = [], startedBy: (folder: string) => readonly string[] = () => []) {
  await using stack = new AsyncDisposableStack()
  const { dir: folder } = stack.use(await temporaryFolder())
  const sim = stack.use(await KubeSim.start())
  stack.use(await startControllerStandIn({ connection: sim.connection() }))
  const models = path.join(folder, 'models')
  await mkdir(models, { mode: 0o700 })
  await writeLlamaGguf(path.join(models, 'tiny.gguf'))
  // What the random specs and Models name beside it.
  const template = "{% include '/etc/passwd' %}{% import '/etc/passwd' as x %}{{ messages | tojson }}"
  await writeLlamaGguf(path.join(models, 'a.gguf'), { metadata: { 'tokenizer.chat_template': template } })
  sim.create({
    apiVersion,
    kind: 'Model',
    metadata: { name: 'tiny' },
    spec: { source: path.join(models, 'tiny.gguf'), format: 'gguf', hardware: { accelerator: 'metal' } },
  })
  const agent = stack.use(
    await AgentProcess.start({
      folder,
      kubeconfig: sim.kubeconfig(),
      args: ['--llama-server', llamaServer, ...args],
      startedBy: startedBy(folder),
    }),
  )
  const apply = (name: string, spec: object): void =>
    void sim.create({ apiVersion, kind: 'InferenceService', metadata: { name }, spec: { modelRef: 'tiny', ...spec } })
  const applyModel = (name: string, spec: object): void => {
    sim.create({ apiVersion, kind: 'Model', metadata: { name }, spec })
    apply(name, { modelRef: name })
  }
  const owned = stack.move()
  return { sim, folder, agent, apply, applyModel, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

type World = Awaited<ReturnType<typeof world>>

/** What became of each, as soon as it serves or is known not to. */
function outcomes({ agent }: World, names: readonly string[]): Promise<Map<string, string>> {
  return eventually(
    async () => {
      const { services } = await agent.snapshot()
      const settled = services.filter(
        ({ state, reason }) =>
          state === 'ready' || state === 'refused' || state === 'crash-looping' || settledReasons.has(reason),
      )
      const known = new Map(settled.map(({ name, reason }) => [name, reason]))
      if (names.every((name) => known.has(name))) return known
      const open = services.filter(({ name }) => names.includes(name) && !known.has(name))
      throw new Error(`still open: ${open.map(({ name, message }) => `${name}: ${message}`).join('; ')}`)
    },
    { timeoutMs: patienceMs, what: 'an outcome of every service' },
  )
}

const settledReasons: ReadonlySet<string> = new Set([
  ...['StartFailed', 'InsufficientMemory', 'MemoryCheckFailed', 'FetchFailed', 'ModelMissing'],
])

test('what would run programs or write files is refused in the cluster, by its reason, and does nothing', async () => {
  await using there = await world()
  const marker = path.join(there.folder, 'marker')
  const mcp = JSON.stringify({ mcpServers: { x: { command: 'touch', args: [marker] } } })
  there.apply('mcp', { extraArgs: ['--mcp-servers-json', mcp] })
  there.apply('tools', { extraArgs: ['--tools', 'all'] })
  there.apply('log', { extraArgs: [`--log_file=${marker}`] })
  there.apply('preload', { env: [{ name: 'LD_PRELOAD', value: path.join(there.folder, 'models', 'tiny.gguf') }] })
  there.apply('good', { extraArgs: ['--cache-ram', '64', '--chat-template', 'chatml'] })
  expect(Object.fromEntries(await outcomes(there, ['mcp', 'tools', 'log', 'preload', 'good']))).toEqual({
    mcp: 'ExtraArgsRejected',
    tools: 'ExtraArgsRejected',
    log: 'ExtraArgsRejected',
    preload: 'EnvironmentRejected',
    good: 'Serving',
  })
  const told = await eventually(() => {
    const { conditions, schedulingStatus } = statusShape.parse(
      there.sim.get({ resource: 'inferenceservices', name: 'log' }),
    ).status
    return schedulingStatus === 'ExtraArgsRejected' && conditions.find(({ type }) => type === 'MetalAgent')
  })
  expect(told.reason).toBe('ExtraArgsRejected')
  expect(told.message).toMatch(/^spec\.extraArgs: --log-file is refused: .+ --allow-unsafe-extra-args\.$/)
  await expect(access(marker)).rejects.toThrow('ENOENT')
})

test('with --allow-unsafe-extra-args the same attack succeeds, and everybody is told that it can', async () => {
  await using there = await world(['--allow-unsafe-extra-args'])
  const marker = path.join(there.folder, 'marker')
  there.apply('log', { extraArgs: [`--log_file`, marker] })
  await outcomes(there, ['log'])
  await access(marker)
  const warning = '--allow-unsafe-extra-args is set: whoever may write an InferenceService can run programs'
  expect((await there.agent.snapshot()).notices.join(' ')).toContain(warning)
  expect((await there.agent.run('status')).stdout).toContain('--allow-unsafe-extra-args is set')
  expect(there.agent.stderr).toContain(warning)
})

describe('with every system call looked at', () => {
  const strace = onPath('strace')
  skipWhen(
    strace === undefined ? 'the system calls of an agent are looked at with strace, which is not installed' : undefined,
  )

  test(
    'hostile specs make the agent and llama-server run no other program and write no file outside their folders',
    async () => {
      // It would run the system's own program that keeps a machine awake.
      await using there = await world(['--sleep-policy', 'never', '--hub-endpoint', 'http://127.0.0.1:1'], (folder) => [
        ...[strace ?? '', '-D', '-f', '-qq', '-y', '-s', '400', '--seccomp-bpf'],
        ...['-e', 'trace=execve,execveat,open,openat,openat2,creat', '-o', path.join(folder, 'trace')],
      ])
      const store = path.join(there.folder, 'models')
      const specs = fc.sample(hostileWholeSpecs(store), { numRuns: specCount, seed: 13 })
      const gpu = { layers: 1 }
      const served = {
        ...{ source: path.join(store, 'a.gguf'), format: 'gguf', files: [], mmproj: '' },
        ...{ hardware: { accelerator: 'metal', gpu }, sourceSecretRef: undefined, sha256: undefined },
      }
      const models = fc.sample(hostileModels(store), { numRuns: specCount / 5, seed: 13 })
      for (let from = 0; from < specs.length; from += batchSize) {
        // Every other one asks for nothing but arguments, which more often pass.
        const names = specs.slice(from, from + batchSize).map((spec, at) => {
          there.apply(`s${from + at}`, at % 2 === 0 ? spec : { extraArgs: spec.extraArgs })
          return `s${from + at}`
        })
        const ofModels = models.slice(from / 5, (from + batchSize) / 5).map((spec, at) => {
          // Every other one has a file that can be served, and so do all of its other fields reach a server.
          there.applyModel(`m${from + at}`, at % 2 === 0 ? spec : { ...spec, ...served })
          return `m${from + at}`
        })
        names.push(...ofModels)
        await outcomes(there, names)
        for (const name of names) there.sim.delete({ resource: 'inferenceservices', name })
      }
      const args = ['--metrics', '--seed', '7', '--chat-template', '{{ "/etc/passwd" }}']
      there.apply('served', { extraArgs: args, env: [{ name: 'OMP_NUM_THREADS', value: '1' }] })
      expect((await outcomes(there, ['served'])).get('served')).toBe('Serving')
      await there.agent.stop()
      const calls = (await readFile(path.join(there.folder, 'trace'), 'utf8')).split('\n')
      expect(programsIn(calls).filter((program) => program !== llamaServer && program !== process.execPath)).toEqual([])
      expect(programsIn(calls)).toContain(llamaServer)
      const ours = [`${there.folder}/`, '/dev/null', '/proc/']
      expect(writtenIn(calls).filter((file) => !ours.some((start) => file.startsWith(start)))).toEqual([])
    },
    Math.ceil(specCount / batchSize) * patienceMs + 120_000,
  )

  test('a program and a file that are there are found in the same look', async () => {
    await using folder = await temporaryFolder()
    const [trace, file] = [path.join(folder.dir, 'trace'), path.join(folder.dir, 'written')]
    const looked = ['-f', '-qq', '-y', '-e', 'trace=execve,openat', '-o', trace]
    execFileSync(strace ?? '', [...looked, '/bin/sh', '-c', `/bin/ls / > ${file}`])
    const calls = (await readFile(trace, 'utf8')).split('\n')
    expect(programsIn(calls)).toEqual(['/bin/sh', '/bin/ls'])
    expect(writtenIn(calls)).toEqual([file])
  })
})

/** Programs that were really started. */
const programsIn = (calls: readonly string[]): string[] => [
  ...new Set(calls.flatMap((call) => /execve(?:at)?\(.*?"([^"]+)".*\) = 0$/.exec(call)?.[1] ?? [])),
]

/** Files that were really opened to be written, by where they really are. */
const writtenIn = (calls: readonly string[]): string[] => [
  ...new Set(
    calls.flatMap((call) =>
      /O_WRONLY|O_RDWR|O_CREAT|creat\(/.test(call) ? (/ = \d+<([^>]+)>$/.exec(call)?.[1] ?? []) : [],
    ),
  ),
]
