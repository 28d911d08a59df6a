import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files whose tests take longest on two cores, longest first: what starts last must not be what everything waits for. */
const longest = [
  'agent/kill-storm',
  'agent/soak',
  'agent/swap-storm',
  'security/',
  'agent/swap',
  'agent/memory',
  'agent/',
  'kube/',
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
