import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import { execa } from 'execa'
import { expect, inject, test } from 'vitest'
import { agentEntry } from '../support/go-agent/migrate-scene.ts'
import { fakeGguf } from '../support/agent-world.ts'
import { ApiServer } from '../support/control-plane/api-server.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import { freePorts } from '../support/free-port.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { missingPrograms, skipWhen } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const controlPlane = inject('controlPlane')
skipWhen('missing' in controlPlane ? controlPlane.missing : missingPrograms('kubectl', 'base64'))

const root = path.join(import.meta.dirname, '../..')
const page = await readFile(path.join(root, 'docs/cluster.md'), 'utf8')

/** The commands of the page in order, with the comment that stands before some of them. */
const blocks = [...page.matchAll(/(?:^<!-- (.*?) -->\n\n)?^```sh\n([^]*?)^```$/gm)].map(
  ([, note = '', commands = '']) => ({ note, commands }),
)
const executed = blocks.filter(({ note }) => !note.startsWith('not executed: '))

test('the commands of docs/cluster.md lead from a cluster with LLMKube’s definitions to a model that is served with the rights of assets/rbac.yaml, and leave nothing', async () => {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const server = stack.use(await ApiServer.start())
  stack.use(await startControllerStandIn({ connection: server.connection }))
  const hub = stack.use(await startFakeHub())
  await hub.addRepo('Qwen/Qwen2.5-0.5B-Instruct-GGUF', { 'qwen2.5-0.5b-instruct-q4_k_m.gguf': fakeGguf })
  const [clone, bin, home] = ['clone', 'bin', 'home'].map((name) => path.join(folder.dir, name))
  if (clone === undefined || bin === undefined || home === undefined) throw new Error('There are three.')
  for (const one of [clone, bin, home]) await mkdir(one)
  await cp(path.join(root, 'assets'), path.join(clone, 'assets'), { recursive: true })
  const command = path.join(bin, 'metal-agent')
  await writeFile(command, `#!/bin/sh\nexec "${process.execPath}" "${agentEntry}" "$@"\n`)
  await chmod(command, 0o755)
  const env = {
    HOME: home,
    PATH: [bin, path.dirname(process.execPath), process.env['PATH']].join(path.delimiter),
    KUBECONFIG: await writeKubeconfig(path.join(folder.dir, 'admin.kubeconfig'), server.connection),
    HF_ENDPOINT: hub.endpoint,
  }
  const run = (script: string) =>
    execa('bash', ['-euo', 'pipefail', '-c', script], { cwd: clone, env, extendEnv: false, timeout: 60_000 })
  const port = await freePorts(3)
  // The doctor does not like models among temporary files.
  const ofUser = path.join(homedir(), '.cache', 'metalbar')
  await mkdir(ofUser, { recursive: true })
  const store = await mkdtemp(path.join(ofUser, 'cluster-page-'))
  stack.defer(() => rm(store, { recursive: true, force: true }))
  /** Where the page relies on this machine's own ports, runtime and network, a test has others. */
  const here = [
    ...['--port', port, '--client-port', port + 1, '--ingress-port', port + 2, '--ollama-port', 0, '--omlx-port', 0],
    ...['--llama-server', sampleServerPath, '--model-store', store, '--allowed-download-hosts', 'localhost,127.0.0.1'],
  ].join(' ')
  const outputs: string[] = []
  const agents: { readonly ended: Promise<unknown> }[] = []
  for (const { note, commands } of executed) {
    if (note !== 'in the background') {
      outputs.push((await run(commands)).stdout)
      continue
    }
    const agent = spawn('bash', ['-c', `exec ${commands.trim()} ${here}`], { cwd: clone, env, stdio: 'ignore' })
    agents.push({ ended: once(agent, 'exit') })
    stack.defer(() => void agent.kill('SIGKILL'))
    await eventually(async () => /^Cluster.*: live/m.test((await run('metal-agent status')).stdout), {
      what: 'a live cluster',
    })
  }
  const said = outputs.join('\n')
  for (const answer of [
    'yes\nyes',
    'endpointslice.discovery.k8s.io/first ',
    'endpointslice.discovery.k8s.io/first-agent',
  ])
    expect(said).toContain(answer)
  expect(said).toMatch(/^ADMIN=context-of-an-administrator$/m)
  expect(said).toMatch(/^first-agent +ClusterIP/m)
  await agents[0]?.ended
  expect((await run('kubectl get clusterroles')).stdout).not.toContain('metalbar-')
})

test('what docs/cluster.md does not have executed says why', () => {
  expect(executed.length).toBeGreaterThan(12)
  expect(
    blocks.map(({ note }) => note).filter((note) => !/^(|in the background|not executed: .{10,})$/.test(note)),
  ).toEqual([])
})
