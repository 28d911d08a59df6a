import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, inject, test } from 'vitest'
import { z } from 'zod'
import { ApiServer } from '../support/control-plane/api-server.ts'
import { writeKubeconfig } from '../support/control-plane/kubeconfig.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import { freePorts } from '../support/free-port.ts'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { missingPrograms, skipWhen, useLlamaServer } from '../support/skip.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const controlPlane = inject('controlPlane')
skipWhen('missing' in controlPlane ? controlPlane.missing : missingPrograms('kubectl', 'curl', 'make'))
const llamaServer = useLlamaServer()

const root = path.join(import.meta.dirname, '../..')
const page = await readFile(path.join(root, 'docs/first-model.md'), 'utf8')
const completion = z.looseObject({
  choices: z.array(z.looseObject({ message: z.looseObject({ content: z.string().min(1) }) })).nonempty(),
})

/** The commands of the page in order, with the comment that stands before some of them. */
const blocks = [...page.matchAll(/(?:^<!-- (.*?) -->\n\n)?^```sh\n([^]*?)^```$/gm)].map(
  ([, note = '', commands = '']) => ({ note, commands }),
)
const executed = blocks.filter(({ note }) => !note.startsWith('not executed: '))

/** What a clone has, but for git's own folder, with this clone's packages as `npm ci` would have brought them: make runs no npm on those. */
async function freshClone(folder: string): Promise<string> {
  const clone = path.join(folder, 'metalbar')
  const left = new Set(['.git', 'node_modules', 'out', 'dist'].map((name) => path.join(root, name)))
  await cp(root, clone, { recursive: true, filter: (file) => !left.has(file) })
  const packages = path.join(root, 'node_modules')
  const here = path.join(clone, 'node_modules')
  await mkdir(here)
  const names = (await readdir(packages)).filter((name) => name !== '.installed')
  await Promise.all(names.map((name) => symlink(path.join(packages, name), path.join(here, name))))
  await writeFile(path.join(here, '.installed'), '')
  return clone
}

test('the commands of docs/first-model.md lead from a fresh clone to a completion, and leave nothing running', async () => {
  await using stack = new AsyncDisposableStack()
  const folder = stack.use(await temporaryFolder())
  const server = stack.use(await ApiServer.start())
  stack.use(await startControllerStandIn({ connection: server.connection }))
  const gguf = path.join(folder.dir, 'tiny.gguf')
  await writeLlamaGguf(gguf)
  const hub = stack.use(await startFakeHub())
  await hub.addRepo('Qwen/Qwen2.5-0.5B-Instruct-GGUF', {
    'qwen2.5-0.5b-instruct-q4_k_m.gguf': { file: gguf },
    'qwen2.5-0.5b-instruct-q8_0.gguf': Buffer.from('GGUF and nothing more'),
  })
  const clone = await freshClone(folder.dir)
  const home = path.join(folder.dir, 'home')
  await mkdir(home)
  const env = {
    HOME: home,
    PATH: [path.dirname(llamaServer), path.dirname(process.execPath), process.env['PATH']].join(path.delimiter),
    KUBECONFIG: await writeKubeconfig(path.join(folder.dir, 'kubeconfig'), server.connection),
    HF_ENDPOINT: hub.endpoint,
  }
  const ports = await freePorts(2)
  /** Where the page relies on this machine's own ports and network, a test has others. */
  const here = `--port ${ports} --client-port ${ports + 1} --host-ip 192.0.2.10 --ollama-port 0 --omlx-port 0 --allowed-download-hosts localhost,127.0.0.1`
  const asPrinted = (commands: string): string => commands.replaceAll(':9999/', `:${ports + 1}/`)

  const outputs: string[] = []
  const agents: { readonly ended: Promise<unknown> }[] = []
  for (const { note, commands } of executed) {
    if (note !== 'in the background') {
      const options = { cwd: clone, env, extendEnv: false } as const
      const { stdout } = await execa('bash', ['-euo', 'pipefail', '-c', asPrinted(commands)], options)
      outputs.push(stdout)
      continue
    }
    const agent = spawn('bash', ['-c', `exec ${commands.trim()} ${here}`], { cwd: clone, env, stdio: 'ignore' })
    agents.push({ ended: once(agent, 'exit') })
    stack.defer(() => void agent.kill('SIGKILL'))
    const status = () => execa('bash', ['-c', 'bin/metal-agent status'], { cwd: clone, env, extendEnv: false })
    await eventually(async () => /^Cluster.*: live/m.test((await status()).stdout), { what: 'a live cluster' })
  }

  const answer = outputs.find((output) => output.startsWith('{')) ?? ''
  expect(completion.parse(JSON.parse(answer)).choices).toHaveLength(1)
  expect(agents).toHaveLength(1)
  await agents[0]?.ended
  const { stdout: processes } = await execa('ps', ['-eo', 'args'])
  expect(processes.split('\n').filter((line) => line.includes(clone) || line.includes(home))).toEqual([])
})

test('what docs/first-model.md does not have executed says why', () => {
  expect(executed.length).toBeGreaterThan(5)
  expect(
    blocks.map(({ note }) => note).filter((note) => !/^(|in the background|not executed: .{10,})$/.test(note)),
  ).toEqual([])
})
