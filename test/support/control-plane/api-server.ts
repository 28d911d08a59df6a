import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { eventually } from '../eventually.ts'
import { freePorts } from '../free-port.ts'
import { AdminClient, type ClusterConnection, type KubeObject } from './admin-client.ts'
import { Child } from './child.ts'
import { apiServerCommands } from './commands.ts'

/** Longest time to ready, generous for a machine that runs other tests beside it; about 2 s when it has a core. */
const readyLimitMs = 120_000

const ourCrds = join(import.meta.dirname, '../crds')

export interface ApiServerOptions {
  /** The address clients use; listens on every interface when it is not loopback. Default 127.0.0.1. */
  readonly address?: string
  /** Folder of CRDs to apply, null for none. Default: that of LLMKUBE_CRDS, else our minimal ones. */
  readonly crds?: string | null
}

/** A real kube-apiserver with an etcd of its own; for outage tests it can be stopped and started again. */
export class ApiServer implements AsyncDisposable {
  /** The same after every restart. */
  readonly connection: ClusterConnection
  readonly #site: Site
  #running: AsyncDisposableStack
  #apiServer: Child

  private constructor(site: Site, launched: Launched) {
    this.#site = site
    this.connection = launched.connection
    this.#running = launched.running
    this.#apiServer = launched.apiServer
  }

  static async start({ address = '127.0.0.1', crds = defaultCrds() }: ApiServerOptions = {}): Promise<ApiServer> {
    const folder = await mkdtemp(join(tmpdir(), 'metalbar-api-server-'))
    await using starting = new AsyncDisposableStack()
    starting.defer(() => rm(folder, { recursive: true, force: true }))
    const site = { folder, address, token: await writeIdentities(folder), ports: await sitePorts() }
    const server = starting.use(new ApiServer(site, await launch(site)))
    if (crds !== null) await applyCrds(server.connection, crds)
    starting.move()
    return server
  }

  /** Ends it in order: requests in flight are answered, then connections are refused. The data stays. */
  async stop(): Promise<void> {
    await this.#running.disposeAsync()
  }

  /** Ends it at once, as a power cut does: open connections are reset. The data stays. */
  async kill(): Promise<void> {
    await this.#apiServer.kill()
    await this.stop()
  }

  /** Comes back on the same port with the same data, certificate and tokens. */
  async restart(): Promise<void> {
    await this.stop()
    const launched = await launch(this.#site)
    this.#running = launched.running
    this.#apiServer = launched.apiServer
  }

  /** Halts it with its connections open and silent, as a network that swallows packets, until `resume`. */
  pause(): void {
    this.#apiServer.pause()
  }

  resume(): void {
    this.#apiServer.resume()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill()
    await rm(this.#site.folder, { recursive: true, force: true })
  }
}

/** What stays the same over restarts. */
interface Site {
  readonly folder: string
  readonly address: string
  readonly token: string
  readonly ports: Record<'api' | 'etcdClients' | 'etcdPeers', number>
}

interface Launched {
  readonly connection: ClusterConnection
  readonly apiServer: Child
  readonly running: AsyncDisposableStack
}

async function launch(site: Site): Promise<Launched> {
  const { folder, address, token, ports } = site
  const commands = apiServerCommands()
  await using starting = new AsyncDisposableStack()
  const etcdFolder = join(folder, 'etcd')
  if (commands.etcd !== undefined) {
    const [etcd, ...args] = commands.etcd(etcdFolder, ports.etcdClients, ports.etcdPeers)
    starting.use(new Child(etcd, args, join(folder, 'etcd.log')))
  }
  const [program, ...args] = commands.apiServer(etcdFolder, ports.etcdClients)
  const apiServer = starting.use(new Child(program, [...args, ...flags(site)], join(folder, 'apiserver.log')))
  let connection: ClusterConnection = { server: `https://${address}:${ports.api}`, ca: '', token }
  const answers = async (): Promise<boolean> => {
    const ca = await authority(folder)
    if (ca === undefined) return false
    connection = { ...connection, ca }
    return isReady(connection)
  }
  await apiServer.ready(answers, 'the Kubernetes API server', readyLimitMs)
  return { connection, apiServer, running: starting.move() }
}

function flags({ folder, address, ports }: Site): string[] {
  return [
    `--secure-port=${ports.api}`,
    `--bind-address=${address.startsWith('127.') ? address : '0.0.0.0'}`,
    `--advertise-address=${address}`,
    `--cert-dir=${join(folder, 'certificates')}`,
    `--service-account-key-file=${join(folder, 'service-accounts.pem')}`,
    `--service-account-signing-key-file=${join(folder, 'service-accounts.pem')}`,
    '--service-account-issuer=https://kubernetes.default.svc',
    `--token-auth-file=${join(folder, 'tokens.csv')}`,
    '--authorization-mode=RBAC',
    '--service-cluster-ip-range=10.96.0.0/16',
    '--disable-admission-plugins=ServiceAccount',
    '--endpoint-reconciler-type=none',
  ]
}

/** @returns the administrator's token. */
async function writeIdentities(folder: string): Promise<string> {
  const token = randomBytes(24).toString('base64url')
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  await writeFile(join(folder, 'tokens.csv'), `${token},test-admin,test-admin,"system:masters"\n`, { mode: 0o600 })
  await writeFile(join(folder, 'service-accounts.pem'), pem, { mode: 0o600 })
  return token
}

/** The API server makes itself an authority and a certificate from it, and leaves both in one file, the authority last. */
async function authority(folder: string): Promise<string | undefined> {
  const certificates = await readFile(join(folder, 'certificates', 'apiserver.crt'), 'utf8').catch(() => '')
  return certificates.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n/g)?.at(1)
}

async function isReady(connection: ClusterConnection): Promise<boolean> {
  const client = new AdminClient(connection)
  try {
    return (await client.request({ method: 'GET', path: '/readyz' })).status === 200
  } catch {
    return false
  } finally {
    client.close()
  }
}

async function sitePorts(): Promise<Site['ports']> {
  const api = await freePorts(3)
  return { api, etcdClients: api + 1, etcdPeers: api + 2 }
}

function defaultCrds(): string {
  const named = process.env['LLMKUBE_CRDS'] ?? ''
  return named === '' ? ourCrds : named
}

async function applyCrds(connection: ClusterConnection, folder: string): Promise<void> {
  const client = new AdminClient(connection)
  try {
    const files = (await readdir(folder)).filter((name) => name.endsWith('.yaml'))
    for (const file of files) await applyCrd(client, await readFile(join(folder, file), 'utf8'))
  } finally {
    client.close()
  }
}

async function applyCrd(client: AdminClient, yaml: string): Promise<void> {
  for (const crd of await client.applyManifest(yaml)) {
    await eventually(async () => isEstablished(await client.get(crd)), { what: `the CRD ${crd.metadata.name}` })
    const { group, names, versions } = definition.parse(crd).spec
    for (const { name } of versions) {
      // An established CRD still answers 429 until its storage is there.
      const path = `/apis/${group}/${name}/${names.plural}`
      const answers = async () => (await client.request({ method: 'GET', path })).status === 200
      await eventually(answers, { what: `the storage of ${crd.metadata.name}` })
    }
  }
}

const established = z.looseObject({
  status: z.looseObject({ conditions: z.array(z.looseObject({ type: z.string(), status: z.string() })) }),
})
const definition = z.looseObject({
  spec: z.looseObject({
    group: z.string(),
    names: z.looseObject({ plural: z.string() }),
    versions: z.array(z.looseObject({ name: z.string() })),
  }),
})

function isEstablished(crd: KubeObject | undefined): boolean {
  const conditions = established.safeParse(crd).data?.status.conditions ?? []
  return conditions.some(({ type, status }) => type === 'Established' && status === 'True')
}
