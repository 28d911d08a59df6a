import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const folder = join(import.meta.dirname, '../../../src/renderer')
const texts = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.(css|tsx?)$/.test(file))
  .map((file) => ({ file, text: readFileSync(join(folder, file), 'utf8') }))

const colour = '(?:#[0-9a-f]{3,8}|var\\(--[a-z0-9-]+\\))'
/** Of a shadow its lengths too, which take no room. */
const ofColour = new RegExp(`^--[a-z0-9-]+: ${colour}$|^--[a-z0-9-]+-shadow: `)

// So what is found of the light window holds for the dark one too, its colours aside: `test/window/states.test.ts` stands on that.
test('dark differs from light in colours alone', () => {
  const asking = texts.filter(({ text }) => /prefers-color-scheme|light-dark\(/.test(text))
  const [, dark = ''] =
    /@media \(prefers-color-scheme: dark\) \{\n {2}:root \{\n([^}]*)\}\n\}/.exec(asking[0]?.text ?? '') ?? []
  const declared = dark.split(/;\s*/).filter((one) => one !== '')
  expect(asking.map(({ file }) => file)).toEqual(['styles/tokens.css'])
  expect(declared.length).toBeGreaterThan(10)
  expect(declared.map((one) => one.trim()).filter((one) => !ofColour.test(one))).toEqual([])
})
