import { expect, test } from 'vitest'
import { startFakeHub } from '../support/fake-hub.ts'

const content = Buffer.from('GGUF and a little more')

test('the Hub of the tests sends large files from another host, in ranges and without a token', async () => {
  await using hub = await startFakeHub()
  await hub.addRepo('org/repo', { 'M.gguf': content, 'config.json': Buffer.from('{}') })
  const url = `${hub.endpoint}/org/repo/resolve/main/M.gguf`
  const range = { range: 'bytes=5-8' }
  const answers = [
    await fetch(url),
    await fetch(url, { headers: range }),
    await fetch(url, { headers: { ...range, 'if-range': '"another"' } }),
    await fetch(url, { headers: { range: 'bytes=100-' } }),
    await fetch(`${hub.endpoint}/org/repo/resolve/main/config.json`),
  ]
  const read = answers.map(async (answer) => [new URL(answer.url).origin, answer.status, await answer.text()])
  expect(await Promise.all(read)).toEqual([
    [hub.cdnOrigin, 200, content.toString()],
    [hub.cdnOrigin, 206, 'and '],
    [hub.cdnOrigin, 200, content.toString()],
    [hub.cdnOrigin, 416, ''],
    [hub.endpoint, 200, '{}'],
  ])
  const { headers } = await fetch(url, { redirect: 'manual' })
  const signed = headers.get('location') ?? ''
  expect([headers.get('x-linked-size'), (await fetch(signed)).status]).toEqual([String(content.length), 200])
  expect((await fetch(signed, { headers: { authorization: 'Bearer hf_good' } })).status).toBe(400)
})

test('the Hub of the tests breaks off a download when told', async () => {
  await using hub = await startFakeHub()
  await hub.addRepo('org/repo', { 'M.gguf': content })
  hub.cdn.drops.push(7)
  const url = `${hub.endpoint}/org/repo/resolve/main/M.gguf`
  const answer = await fetch(url)
  await expect(answer.arrayBuffer()).rejects.toThrow('terminated')
  expect(await (await fetch(url)).text()).toBe(content.toString())
})
