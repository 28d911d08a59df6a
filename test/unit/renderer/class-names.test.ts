import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const source = join(import.meta.dirname, '../../../src/renderer')
const stylesheets = globSync('**/*.module.css', { cwd: source })

/** Those whose name is a value in the code. */
const chosenByValue: Readonly<Record<string, readonly string[]>> = {
  'components/glyph.module.css': ['good', 'busy', 'warn', 'bad'],
  'components/blocks.module.css': ['noteBanner', 'warnBanner', 'badBanner'],
  'components/buttons.module.css': ['plain', 'prominent', 'link'],
  'views/fit-card.module.css': ['held', 'weights', 'kv', 'rest'],
}

test('every class that a part of the window names is in its stylesheet, and none is there for nothing', () => {
  const found = stylesheets.flatMap((sheet) => {
    const css = readFileSync(join(source, sheet), 'utf8')
    const written = new Set([...css.matchAll(/\.([a-z][\w-]*)(?=[^{}]*\{)/gi)].map(([, name]) => name))
    const name = sheet.split('/').at(-1) ?? ''
    const users = globSync('**/*.tsx', { cwd: source }).map((file) => readFileSync(join(source, file), 'utf8'))
    const named = users
      .filter((text) => text.includes(`/${name}'`))
      .flatMap((text) => [...text.matchAll(/styles\['(\w+)'\]/g)].map(([, used]) => used))
    const composed = stylesheets.flatMap((other) =>
      [...readFileSync(join(source, other), 'utf8').matchAll(/composes: (\w+)(?: from '([^']+)')?;/g)]
        .filter(([, , file]) => (file === undefined ? other === sheet : file.endsWith(`/${name}`)))
        .map(([, used]) => used),
    )
    const used = new Set([...named, ...composed, ...(chosenByValue[sheet] ?? [])])
    const unknown = [...used].filter((one) => !written.has(one))
    const unused = [...written].filter((one) => !used.has(one))
    return unknown.length + unused.length === 0 ? [] : [{ sheet, unknown, unused }]
  })
  expect(found).toEqual([])
})
