import { expect, test } from 'vitest'
import { scenes } from '../support/window/scenes.ts'
import { useStage } from './stage.ts'

const show = useStage()

/** Of small text on one line, in CSS pixels. */
const oneLine = 22

test('a flag that does not fit at the end of a line begins the next one', async () => {
  await using window = await show(scenes['no-kubeconfig'])
  const flag = window.page.getByText('--kubeconfig.', { exact: true }).last()
  expect((await flag.boundingBox())?.height).toBeLessThan(oneLine)
})

test('why a service is out of memory is said once', async () => {
  await using window = await show(scenes.evicted)
  const { page } = window
  await page.getByText('Bring back does it now.').waitFor()
  expect(await page.getByText('which was critically short').filter({ visible: true }).count()).toBe(1)
})
