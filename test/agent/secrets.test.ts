import { execFile } from 'node:child_process'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { AgentProcess } from '../support/agent-process.ts'
import { startControllerStandIn } from '../support/controller-stand-in/controller-stand-in.ts'
import { useControlPlane } from '../support/control-plane/control-plane.ts'
import { eventually } from '../support/eventually.ts'
import { startFakeHub } from '../support/fake-hub.ts'
import { throwAwayIdentity } from '../support/kube-sim/tls.ts'
import { s3Region, startS3Server } from '../support/s3-server.ts'
import { sampleServerPath } from '../support/sample-servers/sample.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

const cluster = useControlPlane()

const apiVersion = 'inference.llmkube.dev/v1alpha1'
const token = 'hf_T0kenOfTheSecret'
const names = ['found', 'forbidden', 'late', 'keyless'] as const
type Name = (typeof names)[number]

/** Without the right to read every Secret. */
const rules = [
  { apiGroups: ['inference.llmkube.dev'], resources: ['*'], verbs: ['*'] },
  { apiGroups: ['discovery.k8s.io', 'events.k8s.io'], resources: ['*'], verbs: ['*'] },
  { apiGroups: [''], resources: ['services', 'endpoints', 'events', 'pods'], verbs: ['*'] },
  {
    apiGroups: [''],
    resources: ['secrets'],
    resourceNames: ['hub-found', 'hub-late', 'hub-keyless', 's3-found', 's3-refused'],
    verbs: ['get'],
  },
]

async function restrictedAgent(folder: string, ...flags: readonly string[]): Promise<AgentProcess> {
  const { kubeconfig } = await cluster().restrictedKubeconfig(rules)
  const usual = ['--namespace', cluster().namespace, '--llama-server', sampleServerPath, '--log-level', 'debug']
  return AgentProcess.start({ folder, kubeconfig: await readFile(kubeconfig, 'utf8'), args: [...usual, ...flags] })
}

test('the token of a Secret opens a private model at the Hub alone, and stands nowhere; a Secret that is of no use is told and looked for again', async () => {
  const identity = await throwAwayIdentity()
  const { admin, namespace, connection } = cluster()
  await using _controller = await startControllerStandIn({ connection, namespace })
  await using folder = await temporaryFolder()
  await using hub = await startFakeHub({ identity, tokens: [token] })
  const caFile = join(folder.dir, 'ca.pem')
  await writeFile(caFile, identity.certificate)
  await using agent = await restrictedAgent(folder.dir, '--hub-endpoint', hub.endpoint, '--ca-file', caFile)
  const secret = (name: Name, stringData: Record<string, string>) =>
    admin.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: `hub-${name}` }, stringData })
  await secret('found', { HF_TOKEN: token })
  await secret('forbidden', { HF_TOKEN: token })
  await secret('keyless', { password: token })
  for (const name of names) {
    await hub.addRepo(`org/${name}`, { [`${name}.gguf`]: modelOf(name) }, { private: true, grantedTo: [token] })
    const spec = { source: `hf://org/${name}`, format: 'gguf', hardware: { accelerator: 'metal' } }
    await admin.apply({
      apiVersion,
      kind: 'Model',
      metadata: { name },
      spec: { ...spec, sourceSecretRef: { name: `hub-${name}` } },
    })
    await admin.apply({ apiVersion, kind: 'InferenceService', metadata: { name }, spec: { modelRef: name } })
  }

  const { pid } = await agent.service('found', 'ready')
  const messages: Record<string, string> = {}
  for (const name of ['forbidden', 'late', 'keyless'] as const) {
    messages[name] = (await agent.service(name, 'waiting', 'FetchFailed')).message.replaceAll(namespace, '<namespace>')
  }
  expect(messages).toEqual({
    forbidden: expect.stringMatching(
      /^Secret <namespace>\/hub-forbidden, which spec\.sourceSecretRef names, cannot be read \(.*forbidden.*\): allow this agent to get Secrets in <namespace>, or remove sourceSecretRef\.$/,
    ) as string,
    late: 'Secret <namespace>/hub-late, which spec.sourceSecretRef names, does not exist: create it with the key HF_TOKEN, or remove sourceSecretRef.',
    keyless:
      'Secret <namespace>/hub-keyless, which spec.sourceSecretRef names, has no Hugging Face token (its keys: password): put one under the key HF_TOKEN.',
  })
  expect(hub.requests.filter(({ path }) => /forbidden|late|keyless/.test(path))).toEqual([])

  // No event tells the agent of it: it looks again by itself.
  await secret('late', { HF_TOKEN: token })
  await agent.service('late', 'ready')

  const authorizations = hub.requests.map(({ server, headers }) => `${server} ${headers.authorization ?? 'nothing'}`)
  expect(new Set(authorizations)).toEqual(new Set([`hub Bearer ${token}`, 'cdn nothing']))

  const condition = async () =>
    JSON.stringify(await admin.get({ apiVersion, kind: 'InferenceService', metadata: { name: 'forbidden' } }))
  await eventually(async () => (await condition()).includes('sourceSecretRef'))
  expect(await whereIs(token, agent, { folder: folder.dir, server: pid })).toEqual({ leaks: [], unseen: ['agent'] })
})

test('the keys of a Secret open a bucket of S3, and stand nowhere, also where they are refused', async () => {
  const { admin, namespace, connection } = cluster()
  const keys = { accessKeyId: 'AKIDOFTHETEST', secretAccessKey: 'wJalrXUtnFEMIK7MDENG' }
  await using _controller = await startControllerStandIn({ connection, namespace })
  await using folder = await temporaryFolder()
  await using s3 = await startS3Server(keys)
  s3.objects.set('models/found.gguf', modelOf('found'))
  await using agent = await restrictedAgent(folder.dir, '--allowed-download-hosts', '127.0.0.1')
  const usual = { AWS_ACCESS_KEY_ID: keys.accessKeyId, AWS_ENDPOINT_URL: s3.origin, AWS_REGION: s3Region }
  for (const [name, secretAccessKey] of Object.entries({
    's3-found': keys.secretAccessKey,
    's3-refused': `${keys.secretAccessKey}Old`,
  })) {
    const stringData = { ...usual, AWS_SECRET_ACCESS_KEY: secretAccessKey }
    await admin.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name }, stringData })
    const spec = { source: 's3://models/found.gguf', format: 'gguf', hardware: { accelerator: 'metal' } }
    await admin.apply({ apiVersion, kind: 'Model', metadata: { name }, spec: { ...spec, sourceSecretRef: { name } } })
    await admin.apply({ apiVersion, kind: 'InferenceService', metadata: { name }, spec: { modelRef: name } })
  }
  const { pid } = await agent.service('s3-found', 'ready')
  const { message } = await agent.service('s3-refused', 'waiting', 'FetchFailed')
  expect(message.replaceAll(namespace, 'NS').replaceAll(s3.origin, 'ORIGIN')).toBe(
    'ORIGIN does not accept the AWS_SECRET_ACCESS_KEY of Secret NS/s3-refused: replace it.',
  )
  for (const word of [keys.secretAccessKey, keys.accessKeyId]) {
    expect(await whereIs(word, agent, { folder: folder.dir, server: pid })).toEqual({ leaks: [], unseen: ['agent'] })
  }
})

/** Where a secret is to be read, as it is or in base64, and where nothing is said of the service `found` at all. */
async function whereIs(
  secret: string,
  agent: AgentProcess,
  { folder, server = 0 }: { readonly folder: string; readonly server?: number | undefined },
): Promise<{ leaks: string[]; unseen: string[] }> {
  const { admin } = cluster()
  const objects = await Promise.all(
    (
      [
        [apiVersion, 'InferenceService'],
        [apiVersion, 'Model'],
        ['v1', 'Event'],
        ['v1', 'Service'],
        ['v1', 'Endpoints'],
        ['discovery.k8s.io/v1', 'EndpointSlice'],
      ] as const
    ).map(([version, kind]) => admin.list({ apiVersion: version, kind })),
  )
  const listing = await agent.run('models', '--json')
  const outputs = {
    objects: JSON.stringify(objects),
    snapshot: JSON.stringify(await agent.snapshot()),
    models: listing.stdout,
    story: (await agent.run('history', '--json')).stdout,
    agent: await commandAndEnvironment(agent.pid),
    server: await commandAndEnvironment(server),
    log: agent.stderr + agent.stdout,
    files: await textBelow(folder),
  }
  const encoded = [secret, Buffer.from(secret).toString('base64')]
  const leaks = Object.entries(outputs).filter(([, text]) => encoded.some((one) => text.includes(one)))
  const unseen = Object.entries(outputs).filter(([, text]) => !text.includes('found'))
  return { leaks: leaks.map(([where]) => where), unseen: unseen.map(([where]) => where) }
}

/** Each of its own content: the same would be fetched once. */
const modelOf = (name: string): Buffer => Buffer.from(`GGUF and nothing more than ${name}`)

/** As every user of this machine may see them, and as a user sees them who may read the environment too. */
async function commandAndEnvironment(pid: number): Promise<string> {
  const { stdout } = await promisify(execFile)('ps', ['eww', '-o', 'command=', '-p', String(pid)])
  return stdout
}

/** Every file below: records of models, state, logs of servers. */
async function textBelow(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  const texts = await Promise.all(files.map(async (file) => `${file}\n${await readFile(file, 'latin1')}`))
  return texts.join('\n')
}
