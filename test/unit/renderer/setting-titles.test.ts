import { expect, test } from 'vitest'
import { settingTitles } from '../../../src/renderer/words/setting-titles.ts'
import { settingWords } from '../../../src/renderer/words/views.ts'
import { spellingOf } from '../../../src/contract/setting-text.ts'
import { settingNames } from '../../../src/contract/settings.ts'

test('each setting has a title of its own in words, and its help says what it is called on the command line', () => {
  const titles = settingNames.map((name) => settingTitles[name])
  expect(new Set(titles).size).toBe(settingNames.length)
  for (const title of titles) expect(title).toMatch(/^[A-Z][A-Za-z -]{4,40}['A-Za-z -]*$/)
  for (const name of settingNames)
    expect(settingWords.help(name)).toContain(`On the command line: ${spellingOf(name)}.`)
})
