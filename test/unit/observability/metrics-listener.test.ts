import { chmod, mkdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { AgentMetrics } from '../../../src/agent-core/observability/agent-metrics.ts'
import {
  type MetricsListenerOptions,
  readMetricsToken,
  startMetricsListener,
} from '../../../src/agent-core/observability/metrics-listener.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const token = 'a-token-of-28-visible-chars!'
let parts: AsyncDisposableStack
let tokenFile: string
let warned: unknown[]
beforeEach(async () => {
  parts = new AsyncDisposableStack()
  tokenFile = join(parts.use(await temporaryFolder()).dir, 'token')
  await writeFile(tokenFile, `${token}\n`, { mode: 0o600 })
  warned = []
})
afterEach(() => parts.disposeAsync())

async function start(options: Partial<MetricsListenerOptions> = {}) {
  const metrics = parts.use(new AgentMetrics())
  const ignore = () => undefined
  const log = { debug: ignore, info: ignore, error: ignore, warn: (_: string, fields?: object) => warned.push(fields) }
  const listener = await startMetricsListener({
    address: { host: '127.0.0.1', port: 0 },
    ...{ tokenFile, metrics, log },
    ...options,
  })
  parts.defer(() => listener.stop())
  return { ...listener, url: `http://127.0.0.1:${listener.port}` }
}

const bearer = (secret: string) => ({ headers: { authorization: `Bearer ${secret}` } })
const statusOf = async (url: string, init?: RequestInit) => (await fetch(url, init)).status

test('who has the token gets the metrics, also by HEAD, whatever name the request is sent to', async () => {
  const { url, problem } = await start()
  const answer = await fetch(`${url}/metrics`, bearer(token))
  const head = await fetch(`${url}/metrics?x=1`, { method: 'HEAD', headers: { authorization: `bearer  ${token}` } })
  expect([problem, answer.status, answer.headers.get('content-type'), head.status, await head.text()]).toEqual([
    undefined,
    200,
    'text/plain; version=0.0.4; charset=utf-8',
    200,
    '',
  ])
  expect(await answer.text()).toMatch(/^llmkube_metal_agent_managed_processes 0$/m)
})

test.each([
  ['no token', {}],
  ['another token', { authorization: `Bearer ${token}x` }],
  ['the beginning of the token', { authorization: `Bearer ${token.slice(0, -1)}` }],
  ['an empty token', { authorization: 'Bearer ' }],
  ['two tokens', { authorization: `Bearer ${token} ${token}` }],
  ['the token by another scheme', { authorization: `Basic ${token}` }],
  ['the token alone', { authorization: token }],
])('%s is answered with 401, and no figure', async (_, headers) => {
  const { url } = await start()
  const answer = await fetch(`${url}/metrics`, { headers })
  expect([answer.status, answer.headers.get('www-authenticate'), await answer.json()]).toEqual([
    401,
    'Bearer',
    { error: 'This needs the token of --metrics-token-file.' },
  ])
})

test.each(['/', '/healthz', '/readyz', '/metrics/', '//metrics', '/api/command'])(
  'there is nothing at %s, with the token too',
  async (path) => {
    const { url } = await start()
    expect(await statusOf(`${url}${path}`, bearer(token))).toBe(404)
  },
)

test.each(['POST', 'PUT', 'DELETE', 'OPTIONS'])('%s is refused', async (method) => {
  const { url } = await start()
  const answer = await fetch(`${url}/metrics`, { method, ...bearer(token) })
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
})

test('a token that is replaced takes effect at once, and one that cannot be used lets nobody in and is said once', async () => {
  const { url } = await start()
  const next = 'another-token-of-32-characters-!'
  await writeFile(`${tokenFile}.new`, next, { mode: 0o600 })
  await rename(`${tokenFile}.new`, tokenFile)
  const replaced = [await statusOf(`${url}/metrics`, bearer(token)), await statusOf(`${url}/metrics`, bearer(next))]
  await chmod(tokenFile, 0o644)
  const open = [await statusOf(`${url}/metrics`, bearer(next)), await statusOf(`${url}/metrics`, bearer(next))]
  await chmod(tokenFile, 0o600)
  expect([replaced, open, await statusOf(`${url}/metrics`, bearer(next)), warned]).toEqual([
    [401, 200],
    [401, 401],
    200,
    [
      {
        text: `Every scrape at --metrics-address is refused until the token file ${tokenFile} can be used: other users may open it; run chmod 600 on it.`,
      },
    ],
  ])
})

describe('a token file', () => {
  test.each([
    ['15 characters', 'x'.repeat(15), 'a token has 16 to 1024 visible characters'],
    ['1025 characters', 'x'.repeat(1_025), 'a token has 16 to 1024 visible characters'],
    ['a space in it', `${token} ${token}`, 'a token has 16 to 1024 visible characters'],
    ['nothing', '', 'a token has 16 to 1024 visible characters'],
    ['a megabyte', 'x'.repeat(1_048_576), 'a token has 16 to 1024 visible characters'],
  ])('with %s cannot be used', async (_, text, why) => {
    await writeFile(tokenFile, text)
    expect(await readMetricsToken(tokenFile)).toMatchObject({ ok: false, why: expect.stringContaining(why) as string })
  })

  test.each(['x'.repeat(16), 'x'.repeat(1_024), `${token} \r\n\n`])('may hold %j', async (text) => {
    await writeFile(tokenFile, text)
    expect(await readMetricsToken(tokenFile)).toMatchObject({ ok: true })
  })

  test('may be a link, but no folder, and has to be there', async () => {
    const folder = `${tokenFile}.folder`
    await mkdir(folder, { mode: 0o700 })
    await symlink(tokenFile, `${tokenFile}.link`)
    const linked = await readMetricsToken(`${tokenFile}.link`)
    await rm(tokenFile)
    expect([linked, await readMetricsToken(folder), await readMetricsToken(tokenFile)]).toMatchObject([
      { ok: true },
      { ok: false, why: 'it is not a file; name a file with the token in it' },
      { ok: false, why: expect.stringMatching(/^ENOENT.*; create it with a token/) as string },
    ])
  })
})

test('a listener makes a token where there is none, keeps it, and says where it cannot be used', async () => {
  await rm(tokenFile)
  const { url, problem } = await start()
  const made = (await readFile(tokenFile, 'utf8')).trim()
  expect([problem, made, (await stat(tokenFile)).mode & 0o777]).toEqual([
    undefined,
    expect.stringMatching(/^\w{64}$/),
    0o600,
  ])
  expect([await statusOf(`${url}/metrics`, bearer(made)), await statusOf(`${url}/metrics`, bearer(token))]).toEqual([
    200, 401,
  ])
  await start()
  expect((await readFile(tokenFile, 'utf8')).trim()).toBe(made)
  const elsewhere = join(`${tokenFile}.none`, 'token')
  expect((await start({ tokenFile: elsewhere })).problem).toMatch(
    /is refused until the token file .* can be used: ENOENT/,
  )
})
