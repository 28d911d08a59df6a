import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { hostPlatform } from '../../src/agent-core/platform/host.ts'
import { z } from 'zod'
import { version } from '../../package.json' with { type: 'json' }
import { agentSnapshot } from '../../src/contract/snapshot.ts'
import { AgentProcess, type AgentProcessOptions } from '../support/agent-process.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { startFileServer, type FileServer } from '../support/file-server.ts'
import { freePort } from '../support/free-port.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleScriptArgs, sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const gguf = Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(1_000)])
const text: unknown = expect.any(String)

describe.concurrent('how it ends', () => {
  test.for(['SIGTERM', 'SIGINT'] as const)(
    '%s: the endpoint is withdrawn, the server stopped, and nothing left behind',
    async (signal) => {
      await using world = await serving()
      const { agent, sim, pid } = world
      agent.signal(signal)
      const exit = await agent.exited
      expect({
        exit,
        ready: readyOf(sim, 'tiny'),
        serverLives: lives(pid),
        order: agent.log
          .map(({ msg }) => msg)
          .filter((msg) => /^(stopp|withdrew|server exited)/.test(msg) && msg !== 'stopping server'),
        left: (await readdir(agent.stateDir)).filter((name) => /lock|sock/.test(name)),
      }).toEqual({
        exit: { code: 0, signal: null },
        ready: [false],
        serverLives: false,
        order: ['stopping metal-agent', 'withdrew endpoint', 'server exited', 'stopped metal-agent'],
        left: [],
      })
    },
  )

  test('a second signal ends it at once', async () => {
    await using world = await serving({ extraArgs: sampleScriptArgs({ ignoreSigterm: true }) })
    const { agent, pid } = world
    agent.signal('SIGTERM')
    await agent.logged('withdrew endpoint')
    agent.signal('SIGTERM')
    const exit = await agent.exited
    process.kill(-pid, 'SIGKILL')
    expect({ exit, ordered: agent.log.some(({ msg }) => msg === 'stopped metal-agent') }).toEqual({
      exit: { code: 1, signal: null },
      ordered: false,
    })
  })

  test('a defect ends the agent alone: what serves goes on, and the agent that is started for it takes it over', async () => {
    const onSignal = 'process.on("SIGUSR2",()=>{throw new Error("a defect")})'
    await using world = await serving(
      {},
      { env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(onSignal)}` } },
    )
    const { agent, sim, pid } = world
    agent.signal('SIGUSR2')
    const exit = await agent.exited
    expect({
      exit,
      ready: readyOf(sim, 'tiny'),
      serverLives: lives(pid),
      told: agent.log.filter(({ level }) => level === 'error').map(({ msg, error }) => ({ msg, error })),
      kept: agent.log.some(({ msg }) => msg === 'servers keep running'),
    }).toEqual({
      exit: { code: 1, signal: null },
      ready: [true],
      serverLives: true,
      told: [{ msg: 'defect', error: 'Error: a defect' }],
      kept: true,
    })
    const options = { folder: agent.folder, kubeconfig: sim.kubeconfig(), args: ['--llama-server', sampleServerPath] }
    await using next = await AgentProcess.start(options)
    expect(await next.service('tiny', 'ready')).toMatchObject({ pid })
    next.signal('SIGTERM')
    await next.exited
    expect(readyOf(sim, 'tiny')).toEqual([false])
  })

  test('one that was killed leaves a lock and a socket, which the next start takes over', async () => {
    await using folder = await temporaryFolder()
    await using first = await AgentProcess.start({ folder: folder.dir })
    await first.snapshotWhenUp()
    first.signal('SIGKILL')
    await first.exited
    const left = (await readdir(first.stateDir)).filter((name) => /lock|sock/.test(name)).sort()
    await using second = await AgentProcess.start({ folder: folder.dir })
    const { bootId } = await second.snapshotWhenUp()
    expect({ left, bootId }).toEqual({ left: ['agent.lock', 'agent.sock'], bootId: text })
  })
})

describe.concurrent('how it starts', () => {
  test('a second agent on the same state folder is refused and told about the first', async () => {
    await using first = await AgentProcess.start()
    await first.snapshotWhenUp()
    await using second = await AgentProcess.start({ folder: first.folder })
    const exit = await second.exited
    expect({ exit, says: second.stderr.replace(/since \S+\)/, 'since <time>)'), first: first.exit }).toEqual({
      exit: { code: 1, signal: null },
      says: `metal-agent: Another agent (process ${first.pid}, since <time>) uses this state folder: stop it, or give this one another --state-dir.\n`,
      first: undefined,
    })
  })

  test('a lock from before the last boot is stale, whoever has its pid and start time now', async () => {
    await using folder = await temporaryFolder()
    const stateDir = path.join(folder.dir, 'state')
    await mkdir(stateDir)
    const startTime = (await hostPlatform().process(process.pid))?.startTime
    const since = new Date().toISOString()
    const lock = { pid: process.pid, processStartTime: `earlier-boot:${startTime}`, since, token: 'old' }
    await writeFile(path.join(stateDir, 'agent.lock'), JSON.stringify(lock))
    await using agent = await AgentProcess.start({ folder: folder.dir })
    await agent.snapshotWhenUp()
    expect(agent.exit).toBeUndefined()
  })

  test('flags with one dash and with "=" count, and each one that changes nothing is told once', async () => {
    await using agent = await AgentProcess.start({
      args: [
        ...['-namespace', 'team-a', '-log-level=debug', '--eviction-enabled=false'],
        ...['-memory-fraction', '0.5', '--max-watch-failures=5'],
      ],
    })
    const { notices, memory } = await agent.snapshotWhenUp()
    const { totalBytes = 0, budgetBytes = 0 } = memory ?? {}
    expect(budgetBytes / totalBytes).toBeCloseTo(0.5, 3)
    const expected = [
      '--max-watch-failures is not in effect: a cluster that does not answer never ends the agent, which asks again with back-off.',
      ...(process.platform === 'linux' ? ['There is no Metal on Linux, so models are served by the CPU here.'] : []),
    ]
    const logged = agent.log.filter(({ msg }) => msg === 'notice').map((line) => line['text'])
    expect({ notices, logged }).toEqual({ notices: expected, logged: expected })
  })

  test('without any flag everything is below the home folder, and a kubeconfig is waited for where kubectl looks', async () => {
    await using sim = await KubeSim.start()
    await using agent = await AgentProcess.start({ usualFlags: false, args: ['--port', '0', '--client-port', '0'] })
    const home = path.join(agent.folder, 'home')
    const starting = await agent.logged('starting metal-agent')
    await agent.logged('no cluster')
    await mkdir(path.join(home, '.kube'))
    await agent.writeKubeconfig(sim.kubeconfig(), path.join(home, '.kube/config'))
    await agent.logged('watching')
    expect({ starting, created: await readdir(agent.folder) }).toEqual({
      starting: {
        ts: text,
        level: 'info',
        msg: 'starting metal-agent',
        version,
        stateDir: path.join(home, '.local/state/metalbar'),
        modelStore: path.join(home, '.local/share/metalbar/models'),
      },
      created: ['home'],
    })
  })
})

describe.concurrent('what operators rely on', () => {
  test('the log is JSON when it is piped, with the messages and keys that are searched for', async () => {
    await using world = await serving()
    const { agent, pid, port } = world
    await agent.stop()
    const [namespace, name] = ['default', 'tiny']
    const line = async (msg: string) => {
      const { ts, ...rest } = await agent.logged(msg)
      return { ...rest, ts: Number.isNaN(Date.parse(ts)) }
    }
    const found = { level: 'info', ts: false }
    expect({
      notJson: agent.stderr.split('\n').filter((one) => one !== '').length - agent.log.length,
      lines: await Promise.all(
        [
          'using host IP',
          'starting inference service',
          'started inference service',
          'registered endpoint',
          'withdrew endpoint',
        ].map(line),
      ),
    }).toEqual({
      notJson: 0,
      lines: [
        { ...found, msg: 'using host IP', ip: '192.0.2.10', why: text, rejected: [] },
        { ...found, msg: 'starting inference service', namespace, name },
        { ...found, msg: 'started inference service', namespace, name, pid, port },
        { ...found, msg: 'registered endpoint', namespace, name, hostIP: '192.0.2.10', port, ready: true },
        { ...found, msg: 'withdrew endpoint', namespace, name },
      ],
    })
  })

  test('no secret reaches the log, the snapshot or an Event, whatever the log level', async () => {
    await using world = await serving(
      { source: ({ origin }) => `${origin.replace('//', '//reader:passw0rd@')}/tiny.gguf?token=s1gned&sig=s1gned2` },
      { args: ['--log-level', 'debug'] },
    )
    const { sim, agent, files } = world
    const refused = `${files.origin.replace('//', '//reader:passw0rd@')}/none.gguf?token=s1gned`
    sim.patch({ resource: 'models', name: 'tiny' }, { spec: { source: refused } })
    await agent.shows(({ services }) => services[0]?.message.includes('404'), 'the refusal of the new source')
    const shown = await agent.snapshot()
    const snapshot = JSON.stringify(shown)
    await agent.stop()
    const secrets = ['passw0rd', 's1gned', Buffer.from('reader:passw0rd').toString('base64'), sim.administrator.token]
    const outputs = {
      log: agent.stderr,
      snapshot,
      events: JSON.stringify(sim.list('events')),
      conditions: JSON.stringify(sim.get({ resource: 'inferenceservices', name: 'tiny' })),
      serverLog: await readFile(shown.services[0]?.logFile ?? '', 'utf8'),
    }
    const leaks = Object.entries(outputs).flatMap(([where, output]) =>
      secrets.filter((secret) => output.includes(secret)).map((secret) => `${secret} in ${where}`),
    )
    expect({ leaks, debug: agent.log.some(({ level }) => level === 'debug') }).toEqual({ leaks: [], debug: true })
  })

  test('/healthz says that it lives, /readyz why it is of no use yet, /metrics what it runs', async () => {
    const port = await freePort()
    await using sim = await KubeSim.start()
    await using files = await startFileServer()
    await using agent = await AgentProcess.start({
      args: ['--port', String(port), '--llama-server', sampleServerPath],
    })
    const { cluster } = await agent.snapshotWhenUp()
    const before = [await ask(port, '/healthz'), await ask(port, '/readyz')]
    await agent.writeKubeconfig(sim.kubeconfig())
    await eventually(async () => (await ask(port, '/readyz')).status === 200)
    apply(sim, files.serve('/tiny.gguf', gguf).url)
    await agent.service('tiny', 'ready')
    const { body } = await ask(port, '/metrics')
    expect({
      before,
      after: await ask(port, '/readyz'),
      metrics: body
        .split('\n')
        .filter(
          (line) => /_(managed_processes|process_healthy|watch_consecutive\w+)[ {]/.test(line) && !line.startsWith('#'),
        ),
    }).toEqual({
      before: [
        { status: 200, body: '{"status":"ok"}' },
        { status: 503, body: JSON.stringify({ status: 'not ready', message: cluster.message }) },
      ],
      after: { status: 200, body: text },
      metrics: [
        'llmkube_metal_agent_managed_processes 1',
        'llmkube_metal_agent_process_healthy{name="tiny",namespace="default"} 1',
        'llmkube_metal_agent_watch_consecutive_failures 0',
      ],
    })
  })

  test('metal-agent status prints a table or JSON, and exits with 3 when no agent runs', async () => {
    await using world = await serving()
    const { agent, port } = world
    const table = await agent.run('status')
    const { code, stdout } = await agent.run('status', '--json')
    await agent.stop()
    const after = await agent.run('status')
    expect({
      table: table.stdout.split('\n').filter((line) => /^(NAME|tiny)/.test(line)),
      json: { code, state: agentSnapshot.parse(JSON.parse(stdout)).services[0]?.state },
      after: { code: after.code, stdout: after.stdout, stderr: after.stderr.slice(0, 65) },
    }).toEqual({
      table: [
        expect.stringMatching(
          /^NAME +NAMESPACE +STATE +MODEL +ADDRESS +AGE +MEMORY +(TOKENS\/S +REQUESTS +)?MESSAGE$/,
        ) as unknown,
        expect.stringMatching(
          new RegExp(`^tiny +default +\\* ready +tiny +192\\.0\\.2\\.10:${port} +\\d+s +`),
        ) as unknown,
      ],
      json: { code: 0, state: 'ready' },
      after: {
        code: 3,
        stdout: '',
        stderr: `metal-agent: No agent is running on the state folder ${agent.stateDir}`.slice(0, 65),
      },
    })
  })
})

interface ServingOptions {
  readonly extraArgs?: readonly string[]
  readonly source?: (files: FileServer) => string
}

/** A cluster, a model file, and an agent that serves it as `tiny`. */
async function serving({ extraArgs = [], source }: ServingOptions = {}, options: AgentProcessOptions = {}) {
  await using stack = new AsyncDisposableStack()
  const sim = stack.use(await KubeSim.start())
  stack.use(await startControllerStandIn({ connection: sim.connection() }))
  const files = stack.use(await startFileServer())
  const { url } = files.serve('/tiny.gguf', gguf)
  apply(sim, source?.(files) ?? url, extraArgs)
  const unsafe = extraArgs.length > 0 ? ['--allow-unsafe-extra-args'] : []
  const args = ['--llama-server', sampleServerPath, ...unsafe, ...(options.args ?? [])]
  const agent = stack.use(await AgentProcess.start({ ...options, kubeconfig: sim.kubeconfig(), args }))
  const { pid = 0, port = 0 } = await agent.service('tiny', 'ready')
  const owned = stack.move()
  return { sim, files, agent, pid, port, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

function apply(sim: KubeSim, source: string, extraArgs: readonly string[] = []): void {
  const apiVersion = 'inference.llmkube.dev/v1alpha1'
  const metadata = { name: 'tiny' }
  const spec = { source, format: 'gguf', hardware: { accelerator: 'metal' } }
  sim.create({ apiVersion, kind: 'Model', metadata, spec })
  sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: 'tiny', extraArgs } })
}

const sliceShape = z.object({
  metadata: z.object({ labels: z.record(z.string(), z.string()).default({}) }),
  endpoints: z.array(z.object({ conditions: z.object({ ready: z.boolean() }) })),
})

/** Of every endpoint that is published for the service. */
const readyOf = (sim: KubeSim, name: string): boolean[] =>
  sim
    .list('endpointslices')
    .map((slice) => sliceShape.parse(slice))
    .filter(({ metadata }) => metadata.labels['llmkube.ai/inference-service'] === name)
    .flatMap(({ endpoints }) => endpoints.map(({ conditions }) => conditions.ready))

function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function ask(port: number, route: string): Promise<{ status: number; body: string }> {
  const response = await fetch(`http://127.0.0.1:${port}${route}`)
  return { status: response.status, body: await response.text() }
}
