import { execFile } from 'node:child_process'
import { access, readdir, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { HttpMethod, RequestContext } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { PinnedContext } from '../../src/agent-core/kube/pinned-context.ts'
import { askProgram } from '../../src/agent-core/util/ask-program.ts'
import type { AgentProcess } from '../support/agent-process.ts'
import { maxHeld, watchedAgent } from '../support/event-loop/health-watch.ts'
import { eventually } from '../support/eventually.ts'
import { throwAwayIdentity } from '../support/kube-sim/tls.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'

test('however many requests wait for a credential plugin that hangs, one runs at a time and none outlives its deadline', async () => {
  await using folder = await temporaryFolder()
  const context = await contextWithPlugin(folder.dir, `touch ${folder.dir}/run-$$; sleep 600 & wait`, 2_000)
  const asked = Array.from({ length: 8 }, () => authorization(context))
  const refused = Promise.allSettled(asked)
  await eventually(() =>
    access(join(folder.dir, 'kubeconfig')).then(() => runs(folder.dir).then((all) => all.length === 1)),
  )
  await context.renew()
  const afterRenewal = authorization(context)
  await expect(afterRenewal).rejects.toThrow('did not answer within 2000 ms')
  expect((await refused).map(({ status }) => status)).toEqual(Array.from({ length: 8 }, () => 'rejected'))
  expect(await runs(folder.dir)).toHaveLength(1)
  expect(
    (await askProgram({ command: 'ps', args: ['-eo', 'args'], env: {}, timeLimitMs: 20_000 })).stdout,
  ).not.toContain(folder.dir)
})

test('a plugin has nobody at its input, and what it says is used until it expires or credentials are renewed', async () => {
  await using folder = await temporaryFolder()
  const answer = `{"kind":"ExecCredential","status":{"token":"'$count'"}}`
  const script = `cat; count=$(ls ${folder.dir} | wc -l); touch ${folder.dir}/run-$$; echo '${answer}'`
  const context = await contextWithPlugin(folder.dir, script, 20_000)
  const [first, again] = [await authorization(context), await authorization(context)]
  expect(first).toMatch(/^Bearer \d+$/)
  expect(again).toBe(first)
  await context.renew()
  expect(await authorization(context)).not.toBe(first)
})

test('a plugin that fails is told with what it said, and one that prints nonsense by its name', async () => {
  await using folder = await temporaryFolder()
  const failing = await contextWithPlugin(folder.dir, 'echo log in first >&2; exit 1', 20_000)
  await expect(authorization(failing)).rejects.toThrow(
    'The credential plugin /bin/sh of the kubeconfig failed: log in first',
  )
  const confused = await contextWithPlugin(folder.dir, 'echo hello', 20_000)
  await expect(authorization(confused)).rejects.toThrow('/bin/sh of the kubeconfig printed no ExecCredential.')
})

describe('whatever a kubeconfig names for its credentials, the agent is not held up', () => {
  const never = 'sleep 600'
  const shell = (name: string) => ({
    'auth-provider': {
      name,
      config: { 'cmd-path': '/bin/sleep', 'cmd-args': '600', 'token-key': '{.t}', 'expiry-key': '{.e}' },
    },
  })
  const endless = '/dev/zero'
  const kinds: readonly {
    readonly what: string
    readonly user: (place: Place) => object
    readonly cluster?: (place: Place) => object
    readonly got: RegExp
  }[] = [
    {
      what: 'auth-provider gcp',
      user: () => shell('gcp'),
      got: /Context "lab" logs in with auth-provider gcp, which kubectl dropped in version 1\.26: install gke-gcloud-auth-plugin/,
    },
    {
      what: 'auth-provider azure',
      user: () => shell('azure'),
      got: /auth-provider azure, .*kubelogin convert-kubeconfig/,
    },
    {
      what: 'exec that never ends',
      user: () => ({ exec: { command: '/bin/sh', args: ['-c', never] } }),
      got: /did not answer within 500 ms/,
    },
    {
      what: 'exec that never stops talking',
      user: () => ({ exec: { command: '/bin/cat', args: [endless] } }),
      got: /printed more than 1048576 bytes/,
    },
    {
      what: 'exec as an auth-provider',
      user: () => ({
        'auth-provider': { name: 'gcp', config: { exec: { command: '/bin/sh', args: ['-c', tokenOf('t')] } } },
      }),
      got: /^Bearer t$/,
    },
    { what: 'tokenFile', user: ({ token }) => ({ tokenFile: token }), got: /^Bearer of-file$/ },
    {
      what: 'tokenFile that is a pipe',
      user: ({ pipe }) => ({ tokenFile: pipe }),
      got: /the token file .* cannot be read: .*pipe is not a regular file/,
    },
    {
      what: 'token-file that is a pipe',
      user: ({ pipe }) => ({ 'token-file': pipe }),
      got: /pipe is not a regular file/,
    },
    {
      what: 'token file of a Pod that never ends',
      user: () => ({ 'auth-provider': { name: 'tokenFile', config: { tokenFile: endless } } }),
      got: /\/dev\/zero is not a regular file/,
    },
    {
      what: 'token file that is huge',
      user: ({ huge }) => ({ tokenFile: huge }),
      got: /has more than 1024 KiB/,
    },
    {
      what: 'client certificate that is a pipe',
      user: ({ pipe, token }) => ({ 'client-certificate': pipe, 'client-key': token }),
      got: /the client certificate .* not a regular file/,
    },
    {
      what: 'client key that never ends',
      user: ({ token }) => ({ 'client-certificate': token, 'client-key': endless }),
      got: /the client key .* not a regular file/,
    },
    {
      what: 'certificate authority that is a pipe',
      user: () => ({ token: 't' }),
      cluster: ({ pipe }) => ({ 'certificate-authority': pipe }),
      got: /the certificate authority .* not a regular file/,
    },
    {
      what: 'oidc whose certificate authority is a pipe',
      user: ({ pipe }) => oidc('https://127.0.0.1:1', { 'idp-certificate-authority': pipe }),
      got: /the certificate authority of the login server .* not a regular file/,
    },
    {
      what: 'oidc whose login server does not answer',
      user: () => oidc('https://127.0.0.1:1'),
      got: /The login server https:\/\/127\.0\.0\.1:1 of the kubeconfig does not renew the token \(connect ECONNREFUSED/,
    },
    { what: 'name and password', user: () => ({ username: 'me', password: 'secret' }), got: /^Basic / },
  ]
  test('for any of them, and each request gets them or a sentence', async () => {
    await using folder = await temporaryFolder()
    const place = await placeIn(folder.dir)
    const files = await Promise.all(
      kinds.map(({ user, cluster = () => ({}) }, at) =>
        kubeconfigIn(folder.dir, user(place), { cluster: cluster(place), name: `${at}` }),
      ),
    )
    const script = join(import.meta.dirname, 'asks-credentials.ts')
    // On a process that is held up for good no other signal has an effect.
    const limit = { timeout: 60_000, killSignal: 'SIGKILL' } as const
    const { stdout } = await promisify(execFile)(process.execPath, [script, ...files], limit)
    const told = outcome.parse(JSON.parse(stdout))
    for (const [at, { what, got }] of kinds.entries()) {
      expect(new Set(told[at]?.got), what).toEqual(new Set([expect.stringMatching(got)]))
    }
    expect(kinds.filter((_, at) => (told[at]?.heldMs ?? Infinity) > mostHeldMs)).toEqual([])
  })

  test('for any of them in turn, a running agent is not held', async () => {
    await using folder = await temporaryFolder()
    const place = await placeIn(folder.dir)
    // A plugin that never ends has a minute in a running agent; what is taken is told nowhere.
    const told = kinds.filter(({ what, got }) => what !== 'exec that never ends' && !/^\^B/.test(got.source))
    const plain = kubeconfigOf({ token: 't' })
    const isUp = (agent: AgentProcess) => agent.shows(({ cluster }) => cluster.context === 'lab', 'the context')
    await using watched = await watchedAgent({ folder: folder.dir, kubeconfig: plain, isUp })
    const says = (is: (text: string) => boolean, what: string) =>
      watched.agent.shows(({ cluster: { message }, notices }) => is([message, ...notices].join(' ')), what)
    const isTrouble = (text: string) =>
      /not a regular file|more than 10\d+ |auth-provider (?:gcp|azure)|ECONNREFUSED 127\.0\.0\.1:1\b/.test(text)
    for (const { what, user, cluster = () => ({}) } of told) {
      // Else what is told of one would be taken for what is told of the next.
      await says((text) => !isTrouble(text), `nothing of what came before ${what}`)
      await watched.agent.writeKubeconfig(kubeconfigOf(user(place), cluster(place)))
      await says(isTrouble, what)
      await watched.agent.writeKubeconfig(plain)
    }
    expect(await watched.health.longest()).toBeLessThan(maxHeld)
  })

  test('nor does a kubeconfig that is a pipe', async () => {
    await using folder = await temporaryFolder()
    const { pipe } = await placeIn(folder.dir)
    await expect(PinnedContext.load({ file: pipe, env: {} })).rejects.toThrow('pipe is not a regular file')
  })
})

test('a certificate that was replaced is the one of the next connection, and a token file is read as it is by then', async () => {
  await using folder = await temporaryFolder()
  const { token } = await placeIn(folder.dir)
  const file = await kubeconfigIn(
    folder.dir,
    { tokenFile: 'token' },
    { cluster: { 'certificate-authority': 'authority' } },
  )
  const authority = join(folder.dir, 'authority')
  await writeFile(authority, 'before')
  const context = await PinnedContext.load({ file, env: {} })
  expect(await authorization(context)).toBe('Bearer of-file')
  const trusted = () => Buffer.from(context.config.getCurrentCluster()?.caData ?? '', 'base64').toString()
  expect(trusted()).toBe('before')
  await Promise.all([writeFile(authority, 'after'), writeFile(token, 'renewed')])
  await context.renew()
  expect([await authorization(context), trusted()]).toEqual(['Bearer renewed', 'after'])
  await writeFile(authority, 'at last')
  context.reconnect()
  await authorization(context)
  expect(trusted()).toBe('at last')
})

describe('a login by oidc', () => {
  test('is renewed once for all requests that wait, with the latest refresh token, also where credentials are read again', async () => {
    await using folder = await temporaryFolder()
    await using server = await loginServer((count) => ({
      id_token: idToken(Date.now() / 1000 + (count === 1 ? 11 : 3_600)),
      refresh_token: `refresh-${count}`,
    }))
    const context = await contextOf(folder.dir, oidc(server.issuer, server.trust))
    const first = await Promise.all([1, 2, 3].map(() => authorization(context)))
    expect(new Set(first).size).toBe(1)
    expect(server.asked).toEqual([{ grant_type: 'refresh_token', refresh_token: 'refresh-0', client_id: 'me' }])
    await context.renew()
    expect(await authorization(context)).toBe(first[0])
    expect(server.asked).toHaveLength(1)
    // Of the kubeconfig and of the login server: a report to send leaves them out.
    const renewed = first[0]?.replace('Bearer ', '')
    expect(context.secrets).toEqual(expect.arrayContaining([idToken(1), 'refresh-0', renewed, 'refresh-1']))
  })

  test.each([
    ['an answer without end', 'endless', /its answer has more than 256 KiB/],
    [
      'a refusal',
      { error: 'invalid_grant' },
      /it answered 400 invalid_grant\): check that it answers, or log in again/,
    ],
    ['nonsense', 'hello', /it answered 200\)/],
  ] as const)('that gets %s is told in a sentence', async (_what, answer, sentence) => {
    await using folder = await temporaryFolder()
    await using server = await loginServer(() => answer)
    const context = await contextOf(folder.dir, oidc(server.issuer, server.trust))
    await expect(authorization(context)).rejects.toThrow(sentence)
  })
})

const outcome = z.array(z.object({ got: z.array(z.string()), heldMs: z.number() }))

/** What a plugin or a pipe holds up, it holds up for good; a busy machine gives this process no time for so long. */
const mostHeldMs = 1_000

interface Place {
  readonly pipe: string
  readonly token: string
  readonly huge: string
}

async function placeIn(dir: string): Promise<Place> {
  const [pipe, token, huge] = [join(dir, 'pipe'), join(dir, 'token'), join(dir, 'huge')]
  await promisify(execFile)('mkfifo', [pipe])
  await writeFile(token, 'of-file\n')
  await writeFile(huge, '')
  // Takes no room on the disk.
  await truncate(huge, 64 * 1024 ** 3)
  return { pipe, token, huge }
}

const idToken = (exp: number): string =>
  ['{}', JSON.stringify({ exp }), ''].map((part) => Buffer.from(part).toString('base64url')).join('.')

const oidc = (issuer: string, trust: object = {}) => ({
  'auth-provider': {
    name: 'oidc',
    config: {
      'idp-issuer-url': issuer,
      'client-id': 'me',
      'id-token': idToken(1),
      'refresh-token': 'refresh-0',
      ...trust,
    },
  },
})

/** Answers the renewals of tokens, and tells what it was asked. */
async function loginServer(answer: (count: number) => object | 'endless' | 'hello') {
  const identity = await throwAwayIdentity()
  if (!identity) throw new Error('A login server needs the openssl command.')
  const asked: Record<string, string>[] = []
  const server = createServer({ key: identity.key, cert: identity.certificate }, (request, response) => {
    if (request.url === '/.well-known/openid-configuration') {
      response.end(JSON.stringify({ token_endpoint: `${issuer}/token` }))
      return
    }
    void text(request).then((form) => {
      asked.push(Object.fromEntries(new URLSearchParams(form)))
      const said = answer(asked.length)
      if (typeof said === 'object') response.writeHead('error' in said ? 400 : 200).end(JSON.stringify(said))
      else if (said === 'hello') response.end(said)
      else {
        const more = (): void => void (response.destroyed || response.write(Buffer.alloc(65_536), more))
        more()
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // a TCP server that listens has no other kind
  const issuer = `https://127.0.0.1:${port}`
  return {
    issuer,
    asked,
    trust: { 'idp-certificate-authority-data': Buffer.from(identity.certificate).toString('base64') },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const tokenOf = (token: string): string => `echo '{"status":{"token":"${token}"}}'`

const runs = async (dir: string): Promise<string[]> => (await readdir(dir)).filter((name) => name.startsWith('run-'))

async function authorization({ config, server }: PinnedContext): Promise<string | undefined> {
  const request = new RequestContext(server, HttpMethod.GET)
  await config.applySecurityAuthentication(request)
  return request.getHeaders()['Authorization']
}

async function contextWithPlugin(dir: string, script: string, pluginTimeLimitMs: number): Promise<PinnedContext> {
  const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: '/bin/sh', args: ['-c', script] }
  return contextOf(dir, { exec }, pluginTimeLimitMs)
}

async function contextOf(dir: string, user: object, pluginTimeLimitMs = 20_000): Promise<PinnedContext> {
  const file = await kubeconfigIn(dir, user)
  return PinnedContext.load({ file, env: { PATH: '/usr/bin:/bin' }, pluginTimeLimitMs })
}

async function kubeconfigIn(
  dir: string,
  user: object,
  { cluster = {}, name = 'kubeconfig' }: { cluster?: object; name?: string } = {},
): Promise<string> {
  const file = join(dir, name)
  await writeFile(file, kubeconfigOf(user, cluster))
  return file
}

/** Of a cluster that refuses every connection at once, as nothing has this port. */
const kubeconfigOf = (user: object, cluster: object = {}): string =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'lab',
    clusters: [{ name: 'lab', cluster: { server: 'https://127.0.0.1:2', ...cluster } }],
    contexts: [{ name: 'lab', context: { cluster: 'lab', user: 'me' } }],
    users: [{ name: 'me', user }],
  })
