import { symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { type ClientName, clientTexts } from '../../src/renderer/words/clients.ts'
import { useClients } from '../support/skip.ts'
import { useSmolAgent } from '../support/smol-agent.ts'

const start = useSmolAgent()
const python = useClients()
const nodeModules = path.resolve(import.meta.dirname, '../../node_modules')

test('what is copied for curl, OpenAI, Anthropic and LiteLLM is answered by a real model as it stands', async () => {
  await using smol = await start()
  const { folder: dir, port } = smol
  await symlink(nodeModules, path.join(dir, 'node_modules'))
  const of = { url: `http://127.0.0.1:${port}/default/smol`, model: 'smol' }
  const ofPython = { 'OpenAI, Python': python, 'Anthropic, Python': python, LiteLLM: python }
  const programs = { curl: 'sh', 'OpenAI, JavaScript': process.execPath, ...ofPython }
  for (const [client, program] of Object.entries(programs)) {
    const file = path.join(dir, 'ask.mjs')
    await writeFile(file, clientTexts[client as ClientName](of))
    const { stdout } = await execa(program, [file], { env: { HOME: dir }, timeout: 100_000 })
    expect(stdout, client).toMatch(/[a-z]{2}/)
  }
})
