import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { describe, expect, test } from 'vitest'
import { AgentProcess } from '../support/agent-process.ts'
import { untilGone } from '../support/agent-world.ts'
import { agentEntryVariable } from '../support/built-agent/entry.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { missingPrivateSystemd, startPrivateSystemd, type PrivateSystemd } from '../support/private-systemd.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { skipWhen } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { examplePlan } from '../unit/installation/service/example-plans.ts'
import { systemdUnitText } from '../../src/installation/service/systemd.ts'
import { shellCommand } from '../../src/contract/shell.ts'
import { agentSnapshot } from '../../src/contract/snapshot.ts'

const unit = 'llmkube-metal-agent.service'
const entry = process.env[agentEntryVariable] ?? path.resolve(import.meta.dirname, '../../src/cli/metal-agent.ts')

// At once: both wait for systemd, which starts what has ended after 10 s.
describe.concurrent('a service of a real systemd', () => {
  skipWhen(missingPrivateSystemd())

  test('serves with the same model server through another flag, a restart and a kill, waits for a cluster that is away, and leaves nothing', async () => {
    await using systemd = await startPrivateSystemd()
    const before = await filesIn(systemd.homeDir)
    await using sim = await KubeSim.start()
    await using _ = await startControllerStandIn({ connection: sim.connection() })
    const kubeconfig = path.join(path.dirname(systemd.homeDir), 'kube & config')
    const models = path.join(path.dirname(systemd.homeDir), 'models')
    const flags = [
      ...['--kubeconfig', kubeconfig, '--model-store', models, '--allowed-model-roots', path.dirname(models)],
      ...['--llama-server', sampleServerPath, '--port', '0', '--client-port', '0', '--host-ip', '192.0.2.10'],
    ]
    const run = commandOf(systemd)

    // A cluster that does not answer ends no agent, so that there is nothing to be started again.
    await writeFile(kubeconfig, sim.kubeconfig().replace(/:\d+\n/, ':1\n'))
    const installed = await makeOf(systemd)('install-metal-agent', `FLAGS=${shellCommand(flags)}`)
    expect(installed).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^It runs as process \d+/m) as string,
    })
    const first = Number(systemd.show(unit, 'MainPID'))
    expect(await run('install', '--', ...flags)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^Nothing has changed/) as string,
    })
    await writeFile(kubeconfig, sim.kubeconfig())

    await applyTiny(sim, models)
    const served = await tinyOf(run)
    const restarted = await run('service', 'restart')
    const [second, afterRestart] = [Number(systemd.show(unit, 'MainPID')), await tinyOf(run)]
    const set = await run('service', 'set', '--log-level', 'debug')
    const [third, afterSet] = [Number(systemd.show(unit, 'MainPID')), await tinyOf(run)]
    process.kill(third, 'SIGKILL')
    await eventually(() => ![0, third].includes(Number(systemd.show(unit, 'MainPID'))), {
      what: 'another agent',
      timeoutMs: 40_000,
    })
    const afterKill = await tinyOf(run)
    expect({
      agents: new Set([first, second, third]).size,
      servers: new Set([served, afterRestart, afterSet, afterKill]),
      said: [restarted, set].map(({ stdout }) =>
        /The model server that ran kept running without a restart/.test(stdout),
      ),
      change: /^ {2}--log-level: \(absent\) → debug$/m.test(set.stdout),
      restarts: systemd.show(unit, 'NRestarts'),
      status: await run('service', 'status'),
      logged: await run('service', 'logs', '-n', '5'),
    }).toMatchObject({
      ...{ agents: 3, servers: new Set([served]), said: [true, true], change: true, restarts: '1' },
      status: { exitCode: 0, stdout: expect.stringMatching(/was started again once after an error\.$/m) as string },
      logged: { exitCode: 0, stdout: expect.stringMatching(/"msg":/) as string },
    })

    // A script is asked nothing, and ends no model by the way.
    expect(await run('uninstall')).toMatchObject({
      exitCode: 4,
      stdout: 'One model serves: default/tiny.',
      stderr: expect.stringMatching(/^metal-agent: Nothing was removed: run it again with --yes/) as string,
    })
    expect([await tinyOf(run), (await run('service', 'status')).exitCode]).toEqual([served, 0])
    expect(await makeOf(systemd)('uninstall-metal-agent')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining(unit) as string,
    })
    await untilGone(served)
    const left = (await filesIn(systemd.homeDir)).filter((file) => !before.includes(file))
    // What the agent keeps for its next life is no part of the service.
    expect(left.filter((file) => !/^\.(?:local|cache)(?:\/|$)|^\.config(?:\/systemd(?:\/user)?)?$/.test(file))).toEqual(
      [],
    )
    expect(left.filter((file) => /service|versions|lock|sock/.test(file))).toEqual([])
    expect([systemd.show(unit, 'LoadState'), (await run('service', 'status')).exitCode]).toEqual(['not-found', 3])
  })

  test('that crashes before the cluster answers, again and again, is started no faster than once in 10 s', async () => {
    await using systemd = await startPrivateSystemd()
    const [starts, crash] = ['starts', 'crash.mjs'].map((name) => path.join(path.dirname(systemd.homeDir), name))
    const script = `import { appendFileSync } from 'node:fs'
appendFileSync(${JSON.stringify(starts)}, performance.timeOrigin + '\\n')
throw new Error('a defect')
`
    await writeFile(crash ?? '', script)
    const installed = await commandOf(systemd)('install', '--env', `NODE_OPTIONS=--import=${crash ?? ''}`)
    expect(installed.stdout).toContain(`${unit} is written`)
    const times = await eventually(
      async () => {
        const known = (await readFile(starts ?? '', 'utf8')).trimEnd().split('\n').map(Number)
        return known.length >= 3 ? known : undefined
      },
      { what: 'three starts', timeoutMs: 120_000 },
    )
    const distances = times.slice(1).map((time, index) => time - (times[index] ?? 0))
    expect(distances.filter((ms) => ms < 10_000)).toEqual([])
  })
})

test('a service beside another agent waits for the state folder, and serves from it as soon as that ends', async () => {
  await using first = await AgentProcess.start()
  await first.logged('starting metal-agent')
  await using service = await AgentProcess.start({ folder: first.folder, env: { METAL_AGENT_SERVICE: '1' } })
  await service.logged('waits for the state folder')
  expect(service.exit).toBeUndefined()
  await first.stop()
  await service.logged('starting metal-agent')
})

test('a service that waits for the state folder ends at once and without an error where it is told to', async () => {
  await using first = await AgentProcess.start()
  await first.logged('starting metal-agent')
  await using service = await AgentProcess.start({ folder: first.folder, env: { METAL_AGENT_SERVICE: '1' } })
  await service.logged('waits for the state folder')
  expect(await service.stop()).toEqual({ code: 0, signal: null })
})

test('service logs --follow goes on with what is written, also after the file was changed for another, until it is interrupted', async () => {
  await using folder = await temporaryFolder()
  const [units, log] = [path.join(folder.dir, '.config/systemd/user'), path.join(folder.dir, 'agent.log')]
  await mkdir(units, { recursive: true })
  const flags = new Map([
    ['state-dir', folder.dir],
    ['log-file', log],
  ])
  await writeFile(path.join(units, unit), systemdUnitText(examplePlan('systemdUser', { flags })))
  await writeFile(log, 'first\nsecond\nthird\n')
  const env = { HOME: folder.dir, PATH: '/usr/bin:/bin' }
  const args = [entry, 'service', 'logs', '--follow', '-n', '2']
  const following = execa(process.execPath, args, { env, extendEnv: false, reject: false, detached: true })
  let said = ''
  following.stdout.on('data', (text: Buffer) => (said += text.toString()))
  await eventually(() => said === 'second\nthird\n', { what: 'the last two lines' })
  await rename(log, `${log}.1`)
  await writeFile(log, 'fourth\n')
  await eventually(() => said.endsWith('third\nfourth\n'), { what: 'what the next file has' })
  // As a terminal does it: to the whole group.
  process.kill(-(following.pid ?? 0), 'SIGINT')
  await following
  expect(said).toBe('second\nthird\nfourth\n')
})

/** `metal-agent …` of the user of this systemd. */
const commandOf =
  ({ env, homeDir }: PrivateSystemd) =>
  (...args: string[]) =>
    execa(process.execPath, [entry, ...args], { env, extendEnv: false, cwd: homeDir, reject: false })

/** A target of LLMKube's guide, with the command that is built already. */
const makeOf =
  ({ env }: PrivateSystemd) =>
  (...args: string[]) =>
    execa('make', ['-o', 'build-metal-agent', `METAL_AGENT=${shellCommand([process.execPath, entry])}`, ...args], {
      ...{ env, extendEnv: false, reject: false },
      cwd: path.resolve(import.meta.dirname, '../..'),
    })

/** Links are not followed: that of a server's working folder to its model may lead back here. */
const filesIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder, { recursive: true, withFileTypes: true }))
    .map(({ parentPath, name }) => path.relative(folder, path.join(parentPath, name)))
    .toSorted()

/** The process that serves it, once it is ready. */
async function tinyOf(run: ReturnType<typeof commandOf>): Promise<number> {
  const found = await eventually(
    async () => {
      const { stdout } = await run('status', '--json')
      if (stdout === '') return undefined
      return agentSnapshot
        .parse(JSON.parse(stdout))
        .services.find(({ name, state }) => name === 'tiny' && state === 'ready')
    },
    { what: 'tiny as ready' },
  )
  return found.pid ?? 0
}

async function applyTiny(sim: KubeSim, models: string): Promise<void> {
  const source = path.join(path.dirname(models), 'tiny.gguf')
  await writeFile(source, Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(1_000)]))
  const apiVersion = 'inference.llmkube.dev/v1alpha1'
  const metadata = { name: 'tiny' }
  const spec = { source, format: 'gguf', hardware: { accelerator: 'metal' } }
  sim.create({ apiVersion, kind: 'Model', metadata, spec })
  sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: 'tiny' } })
}
