import { spawnSync } from 'node:child_process'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { AgentProcess } from '../support/agent-process.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { eventually } from '../support/eventually.ts'
import { startFileServer, type FileServer } from '../support/file-server.ts'
import { KubeSim } from '../support/kube-sim/kube-sim.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

// A look at the volume every 15 s, and another attempt after 30 s at the earliest.
vi.setConfig({ testTimeout: 180_000 })

test.concurrent(
  'a volume that is made read-only or unmounted is told, takes nothing from what serves, and is used again when it is back',
  async ({ skip }) => {
    await using world = await startWorld(skip)
    const { volume, store, start, apply } = world
    const agent = await start()
    apply('steady')
    const { pid } = await agent.service('steady', 'ready')

    await volume.makeReadOnly()
    const readOnly = `The model store ${store} is on a read-only volume: mount it writable or choose another --model-store.`
    await noticed(agent, readOnly)
    apply('first')
    const first = await agent.service('first', 'waiting', 'FetchFailed')

    await volume.unmount()
    apply('second')
    const second = await agent.service('second', 'waiting', 'FetchFailed')
    await noticed(agent, gone(store))
    const steady = await agent.service('steady', 'ready')
    expect([first.message, second.message, steady.pid]).toEqual([readOnly, gone(store), pid])
    expect(await readdir(volume.path)).toEqual([])

    await volume.mount()
    await agent.service('first', 'ready')
    await agent.service('second', 'ready')
    const { notices } = await agent.snapshot()
    expect(notices.filter((notice) => notice.includes('model store'))).toEqual([])
  },
)

test.concurrent(
  'a volume that is away when the agent starts is missed, and not filled in its place',
  async ({ skip }) => {
    await using world = await startWorld(skip)
    const { volume, store, start, apply } = world
    const before = await start()
    apply('tiny')
    await before.service('tiny', 'ready')
    await before.stop()
    await volume.unmount()
    const after = await start()
    await noticed(after, gone(store))
    await after.service('tiny', 'waiting', 'FetchFailed')
    expect(await readdir(volume.path)).toEqual([])
    await volume.mount()
    await after.service('tiny', 'ready')
  },
)

const gone = (store: string): string =>
  `The volume of the model store ${store} is not mounted: connect it again, or choose another --model-store.`

const noticed = (agent: AgentProcess, sentence: string) =>
  agent.shows(({ notices }) => notices.includes(sentence), `the notice ${JSON.stringify(sentence)}`)

/** A cluster, a server of models, and agents whose store is on a volume of its own. */
async function startWorld(skip: (note: string) => never) {
  await using made = new AsyncDisposableStack()
  const folder = made.use(await temporaryFolder()).dir
  const volume = made.use(await mountedVolume(join(folder, 'disk'), skip))
  const sim = made.use(await KubeSim.start())
  made.use(await startControllerStandIn({ connection: sim.connection() }))
  const files = made.use(await startFileServer())
  const store = join(volume.path, 'models')
  const parts = made.move()
  return {
    volume,
    store,
    start: async () =>
      parts.use(
        await AgentProcess.start({
          folder,
          kubeconfig: sim.kubeconfig(),
          args: ['--llama-server', sampleServerPath, '--model-store', store],
        }),
      ),
    apply: (name: string) => apply({ sim, files }, name),
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  }
}

/** Each model of its own content. */
function apply({ sim, files }: { sim: KubeSim; files: FileServer }, name: string): void {
  const apiVersion = 'inference.llmkube.dev/v1alpha1'
  const metadata = { name, namespace: 'default' }
  const { url } = files.serve(`/${name}.gguf`, Buffer.from(`GGUF and nothing more than ${name}`))
  const spec = { source: url, format: 'gguf', hardware: { accelerator: 'metal' } }
  sim.create({ apiVersion, kind: 'Model', metadata, spec })
  sim.create({ apiVersion, kind: 'InferenceService', metadata, spec: { modelRef: name } })
}

/** Empty whenever it is mounted. */
async function mountedVolume(path: string, skip: (note: string) => never) {
  await mkdir(path)
  const run = (command: string, ...args: string[]): boolean => spawnSync(command, args).status === 0
  const mount = () => run('mount', '-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', path)
  if (!mount()) skip('needs the right to mount a tmpfs')
  /** The kernel refuses it for as long as a file of it is open for writing. */
  const untilDone = (attempt: () => boolean, what: string) => eventually(attempt, { what: `the volume being ${what}` })
  return {
    path,
    mount: () => untilDone(mount, 'mounted'),
    unmount: () => untilDone(() => run('umount', path), 'unmounted'),
    makeReadOnly: () => untilDone(() => run('mount', '-o', 'remount,ro', path), 'made read-only'),
    [Symbol.asyncDispose]: async () => {
      run('umount', path)
      await rm(path, { recursive: true, force: true })
    },
  }
}
