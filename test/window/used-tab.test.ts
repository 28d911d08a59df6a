import { expect, test } from 'vitest'
import { sampleSnapshot } from '../support/sample-snapshot.ts'
import { withSettings } from '../support/window/scene-agents.ts'
import { held, ready } from '../support/window/scene-services.ts'
import { turnTo } from './setting-pages.ts'
import { usePages } from './stage.ts'

const pages = usePages()

test('a window in a tab that was used before has nothing of the last one: no draft, size, wish, pointer or word of its agent', async () => {
  const [before, after] = [withSettings(), withSettings()]
  const first = await pages().open({
    ...{ agent: before, size: { width: 700, height: 980 }, wishes: { colorScheme: 'dark', contrast: 'more' } },
    appState: { misplaced: 'diskImage' },
  })
  const { page } = first
  await page.getByRole('tab', { name: 'Settings' }).click()
  await turnTo(page, 'Runtimes')
  const field = page.getByLabel('Time for requests to finish', { exact: true })
  await field.fill('45s')
  await page.mouse.move(200, 300)
  await first[Symbol.asyncDispose]()
  const { listeners } = before
  const { length: asked } = before.queried

  await using second = await pages().open({ agent: after })
  before.show(sampleSnapshot({ revision: 2, services: [held] }))
  after.show(sampleSnapshot({ revision: 2, services: [{ ...ready, revision: 2, message: 'Of the second.' }] }))
  await page.getByText('Of the second.').waitFor()
  const seen = await page.evaluate(
    `[innerWidth, innerHeight, matchMedia('(prefers-color-scheme: dark)').matches, matchMedia('(prefers-contrast: more)').matches,
      document.querySelectorAll('main :hover').length]`,
  )
  const shown = { held: await page.getByText(held.name).count(), misplaced: await page.getByText('disk image').count() }
  await page.getByRole('tab', { name: 'Settings' }).click()
  await turnTo(page, 'Runtimes')
  expect({
    isSameTab: second.page === page,
    ...{ listeners, asked: before.queried.length - asked, seen, shown },
    ...{ written: await field.inputValue(), kept: second.kept, complaints: second.complaints },
  }).toEqual({
    isSameTab: true,
    ...{ listeners: { snapshots: 0, logs: 0 }, asked: 0, seen: [400, 620, false, false, 0] },
    ...{ shown: { held: 0, misplaced: 0 }, written: '30s', kept: [], complaints: [] },
  })
})
