import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * Files whose tests take longest on two cores, longest first, so that the run does not end waiting for one long file that started last. Those
 * of a project follow one another, so that a process can go on with the next file of it.
 */
const longest = [
  'window/states',
  'shell/menu-bar',
  'agent/commands',
  'agent/published-address',
  'agent/bad-input',
  'agent/gateway',
  'agent/life-cycle',
  'agent/memory',
  'agent/mishaps',
  'agent/',
  'shell/',
  'security/',
  'window/views',
  'window/keyboard-views',
  'window/real-',
  'window/',
  'kube/',
  'unit/servers/',
  'unit/power/',
  'unit/reconcile/',
  'unit/models/download/',
]

/** Starts the longest files first. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => rank(a) - rank(b))
  }
}

function rank({ moduleId }: TestSpecification): number {
  const place = longest.findIndex((part) => moduleId.includes(`/test/${part}`))
  return place === -1 ? longest.length : place
}
