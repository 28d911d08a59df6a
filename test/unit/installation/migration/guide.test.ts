import { expect, test } from 'vitest'
import { serviceLabel } from '../../../../src/installation/service/service-plan.ts'

test('the label has the word that "launchctl list | grep llmkube" looks for', () => {
  expect(serviceLabel).toContain('llmkube')
})
