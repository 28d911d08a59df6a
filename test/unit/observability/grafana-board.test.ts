import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import {
  labelNames,
  metricPrefix,
  type MetricRow,
  metricTable,
} from '../../../src/agent-core/observability/metric-table.ts'

const source = z.object({ type: z.literal('prometheus'), uid: z.literal('${datasource}') })
const panel = z.object({
  id: z.int(),
  type: z.string(),
  title: z.string().min(1),
  gridPos: z.object({ x: z.int(), y: z.int(), w: z.int(), h: z.int() }),
  datasource: source.optional(),
  targets: z.array(z.object({ expr: z.string(), legendFormat: z.string(), datasource: source })).optional(),
})
const board = z.object({
  uid: z.string(),
  panels: z.array(panel),
  templating: z.object({
    list: z.array(
      z.object({ name: z.string(), type: z.string(), query: z.unknown(), definition: z.string().optional() }),
    ),
  }),
})

const file = path.resolve(import.meta.dirname, '../../../assets/grafana/metalbar.json')
const { panels } = board.parse(JSON.parse(await readFile(file, 'utf8')))
const rows = new Map(Object.entries<MetricRow>(metricTable))

/** Those that Prometheus adds, and the bound of a bucket. */
const otherLabels = ['instance', 'job', 'le']

interface Use {
  readonly metric: string
  readonly row: MetricRow | undefined
  readonly labels: string[]
}

/** Each metric of ours in an expression, with the labels of its selector. */
function usesIn(expression: string): Use[] {
  return [...expression.matchAll(/([a-z_]+)(?:\{([^}]*)\})?/g)].flatMap(([, name = '', selector = '']) => {
    if (!name.startsWith(metricPrefix)) return []
    const metric = name.slice(metricPrefix.length)
    const family = rows.has(metric) ? metric : metric.replace(/_(bucket|sum|count)$/, '')
    const labels = [...selector.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label)
    return [{ metric, row: rows.get(family), labels }]
  })
}

const targets = panels.flatMap(({ title, targets: own = [] }) => own.map((target) => ({ title, ...target })))

test.each(targets)('“$title” shows only what is exported: $expr', ({ expr, legendFormat }) => {
  const uses = usesIn(expr)
  expect(uses).not.toEqual([])
  const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label)
  const grouped = /\bby \(([^)]*)\)/.exec(expr)?.[1]?.split(/,\s*/) ?? []
  for (const { metric, row, labels } of uses) {
    expect(row, metric).toBeDefined()
    const known = [...otherLabels, ...(row ? labelNames(row) : [])]
    expect(known, metric).toEqual(expect.arrayContaining([...labels, ...shown, ...grouped]))
    expect(/_(bucket|sum|count)$/.test(metric), metric).toBe(row?.type === 'histogram')
  }
})
