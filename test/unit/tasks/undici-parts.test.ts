import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { build } from 'vite'
import { expect, test } from 'vitest'
import { undiciParts } from '../../../tasks/undici-parts.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const run = promisify(execFile)

const entry = `
import { Agent, EnvHttpProxyAgent, fetch, ProxyAgent, request } from 'undici'
const [, , origin] = process.argv
const asked = await request(origin + '/a?b=c', { method: 'PATCH', body: 'new', dispatcher: new Agent() })
const plain = await request(origin)
const fetched = await fetch(origin + '/f', { dispatcher: new EnvHttpProxyAgent() })
console.log(JSON.stringify([await asked.body.text(), await plain.body.text(), await fetched.text(), typeof ProxyAgent]))
`

test('what the bundle keeps of undici asks and fetches as all of it does, and the rest is left out', async () => {
  await using folder = await temporaryFolder()
  const server = createServer((request, response) => {
    request.setEncoding('utf8').on('data', (body: string) => response.write(`${body} `))
    request.on('end', () => response.end(`${request.method} ${request.url}`))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const origin = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  await writeFile(join(folder.dir, 'entry.js'), entry)
  const out = join(folder.dir, 'out')
  await build({
    ...{ configFile: false, logLevel: 'error', root: folder.dir, plugins: [undiciParts()] },
    ssr: { target: 'node', noExternal: true },
    build: { ssr: 'entry.js', outDir: out, rolldownOptions: { output: { entryFileNames: 'entry.mjs' } } },
  })
  const { stdout } = await run(process.execPath, [join(out, 'entry.mjs'), origin])
  server.close()
  expect(JSON.parse(stdout)).toEqual(['new PATCH /a?b=c', 'GET /', 'GET /f', 'function'])
  const files = (await readdir(out, { recursive: true })).filter((name) => /\.m?js$/.test(name))
  const texts = await Promise.all(files.map((name) => readFile(join(out, name), 'utf8')))
  expect(texts.join('')).not.toMatch(/class (MockAgent|EventSource|CacheStorage)|node:http2/)
  expect(texts.join('')).toContain('allowH2 = false')
})
