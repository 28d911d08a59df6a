import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { useControlPlane } from '../support/control-plane/control-plane.ts'
import { eventually } from '../support/eventually.ts'

const cluster = useControlPlane()

test('a private API server ends with the process that started it, however that ends', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'metalbar-killed-'))
  const modulePath = join(import.meta.dirname, '../support/control-plane/api-server.ts')
  const program = `import { ApiServer } from ${JSON.stringify(modulePath)}
    const { connection } = await ApiServer.start({ crds: null })
    console.log(connection.server)
    setInterval(() => undefined, 1000)`
  const owner = spawn(process.execPath, ['--input-type=module-typescript', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, TMPDIR: folder },
  })
  const [line] = z.tuple([z.instanceof(Buffer)]).parse(await once(owner.stdout, 'data'))
  const { hostname, port } = new URL(line.toString().trim())
  await expect(accepts(hostname, Number(port))).resolves.toBe(true)
  owner.kill('SIGKILL')
  await eventually(async () => !(await accepts(hostname, Number(port))), { what: 'the end of the API server' })
  await rm(folder, { recursive: true, force: true, maxRetries: 5 })
})

test('the CRDs of the folder LLMKUBE_CRDS names are in use instead of ours', async ({ skip }) => {
  skip(process.env['LLMKUBE_CRDS'] === undefined, 'LLMKUBE_CRDS names no folder of CRDs')
  const apiVersion = 'apiextensions.k8s.io/v1'
  const name = 'models.inference.llmkube.dev'
  const crd = await cluster().admin.get({ apiVersion, kind: 'CustomResourceDefinition', metadata: { name } })
  expect(crd?.metadata.annotations).toHaveProperty(['controller-gen.kubebuilder.io/version'])
})

function accepts(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, host)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
