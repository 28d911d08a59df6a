import { type ReactNode, useEffect, useRef, useState } from 'react'
import { Label } from 'react-aria-components/Label'
import { Slider, SliderOutput, SliderThumb, SliderTrack } from 'react-aria-components/Slider'
import { Input } from 'react-aria-components/Input'
import { ListBox, ListBoxItem } from 'react-aria-components/ListBox'
import { SearchField } from 'react-aria-components/SearchField'
import { settingNames, type SettingView } from '../../contract/settings.ts'
import { type SettingSection, settingSections } from '../../contract/settings-table.ts'
import { Note, ViewPage } from '../components/blocks.tsx'
import { Button } from '../components/buttons.tsx'
import { classNames } from '../components/text.tsx'
import { focusOn } from '../focus.ts'
import {
  type AnySetting,
  changedIn,
  type Draft,
  isFirst,
  isFound,
  isOfStart,
  pageOf,
  pageOfId,
  patchOfDraft,
  problemsIn,
  settingParts,
  textIn,
  withoutSent,
  withWritten,
} from '../settings-draft.ts'
import { useApp, useSnapshot, useWindow } from '../store.ts'
import { useAnswer } from '../use-answer.ts'
import { budgetWords, settingWords } from '../words/settings.ts'
import { Answer } from './answer.tsx'
import { SettingField, StartSetting } from './setting-field.tsx'
import { SettingsGeneral } from './settings-app.tsx'
import {
  SettingsCluster,
  SettingsModels,
  SettingsNetwork,
  SettingsPower,
  SettingsRuntimes,
} from './settings-sections.tsx'
import styles from './settings.module.css'

const about = 'settings'

/** What a page shows before its settings. */
const places: Readonly<Partial<Record<SettingSection, () => ReactNode>>> = {
  Cluster: SettingsCluster,
  Network: SettingsNetwork,
  Runtimes: SettingsRuntimes,
  Models: SettingsModels,
  Power: SettingsPower,
}

/** Every setting of the agent, on a page for each section. What a person writes is one draft until it is applied. */
export function Settings() {
  const request = useWindow(({ requests }) => requests[about])
  const revision = useSnapshot((snapshot) => snapshot.settingsRevision)
  const { answer, problem } = useAnswer({ name: 'settings' }, [request?.state, revision])
  const views = answer?.settings ?? []
  const all: readonly AnySetting[] = [...views, ...(answer?.start ?? [])]
  const changed = changedIn(
    useWindow((state) => state.draft),
    views,
  )
  const [text, setText] = useState('')
  const { page, led, turn } = usePage(all, () => setText(''))
  const isSearching = text.trim() !== ''
  const rows = (settings: readonly AnySetting[]) => (
    <Rows settings={settings} views={views} changed={changed} startFile={answer?.startFile} led={led} />
  )
  return (
    <ViewPage id="settings" title={settingWords.title}>
      <Note>{problem}</Note>
      <div className={styles['columns']}>
        <div className={styles['side']}>
          <Search text={text} onChange={setText} />
          <Pages page={isSearching ? undefined : page} onChoose={turn} />
        </div>
        {isSearching ? (
          <Found text={text} all={all} rows={rows} />
        ) : (
          <Page key={page} page={page} all={all} rows={rows} />
        )}
      </div>
      <ApplyBar changed={changed} />
    </ViewPage>
  )
}

/** So long a part is looked for that is drawn only once the agent has answered, in milliseconds. */
const lookLimitMs = 3_000

/** The page that is shown: the one a person chose, or that of the setting they are being led to. */
function usePage(all: readonly AnySetting[], onTurn: () => void) {
  const chosen = useWindow((state) => state.settingPage)
  const goal = useWindow((state) => state.goal)
  const turnTo = useWindow((state) => state.turnSettings)
  const [led, setLed] = useState<string>()
  const goalPage = goal === undefined ? undefined : pageOfId(goal, all)
  const turn = (page: SettingSection, to?: string) => {
    onTurn()
    setLed(to)
    turnTo(page)
  }
  useEffect(() => {
    if (goal === undefined || goalPage === undefined) return
    onTurn()
    const since = performance.now()
    const look = () => {
      const isLast = performance.now() - since > lookLimitMs
      if (focusOn(goal, isLast) || isLast) turn(goalPage, goal)
      else frame = requestAnimationFrame(look)
    }
    let frame = requestAnimationFrame(look)
    return () => cancelAnimationFrame(frame)
  }, [goal, goalPage])
  return { page: goalPage ?? chosen, led, turn }
}

interface SearchProps {
  readonly text: string
  readonly onChange: (text: string) => void
}

/** Command+F, elsewhere Control+F, comes here from everywhere in the settings; Escape clears it. */
function Search({ text, onChange }: SearchProps) {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 'f' || !(event.metaKey || event.ctrlKey)) return
      event.preventDefault()
      field.current?.select()
    }
    window.addEventListener('keydown', onKeyDown)
    return () => window.removeEventListener('keydown', onKeyDown)
  }, [])
  return (
    <SearchField aria-label={settingWords.search} value={text} onChange={onChange}>
      <Input ref={field} className={classNames(styles['search'])} placeholder={settingWords.search} />
    </SearchField>
  )
}

interface PagesProps {
  /** Undefined = what was found is shown in place of a page. */
  readonly page: SettingSection | undefined
  readonly onChoose: (page: SettingSection) => void
}

const Pages = ({ page, onChoose }: PagesProps) => (
  <ListBox
    aria-label={settingWords.pageList}
    className={classNames(styles['pages'])}
    layout="grid"
    selectionMode="single"
    selectionBehavior="replace"
    disallowEmptySelection
    selectedKeys={page === undefined ? [] : [page]}
    onSelectionChange={(keys) => {
      const chosen = settingSections.find((one) => keys !== 'all' && keys.has(one))
      if (chosen !== undefined) onChoose(chosen)
    }}
  >
    {settingSections.map((one) => (
      <ListBoxItem key={one} id={one} className={classNames(styles['pageName'])}>
        {settingWords.pages[one]}
      </ListBoxItem>
    ))}
  </ListBox>
)

interface PageProps {
  readonly all: readonly AnySetting[]
  readonly rows: (settings: readonly AnySetting[]) => ReactNode
}

function Page({ page, all, rows }: PageProps & { readonly page: SettingSection }) {
  const app = useApp()
  const Place = places[page]
  const own = all.filter((one) => pageOf(one) === page)
  const first = all.filter(isFirst)
  return (
    <div role="group" className={styles['page']} aria-label={settingWords.pages[page]}>
      <h3 className={styles['title']}>{settingWords.pages[page]}</h3>
      {page === 'General' && (
        <>
          {first.length > 0 && <Group title={settingWords.first}>{rows(first)}</Group>}
          {app !== undefined && (
            <Group title={settingWords.app}>
              <SettingsGeneral app={app} />
            </Group>
          )}
        </>
      )}
      {(Place !== undefined || own.length > 0) && (
        <div className={styles['fields']}>
          {Place !== undefined && <Place />}
          {rows(own)}
        </div>
      )}
    </div>
  )
}

/** Settings by name, help and flag, with the pages that they are on. */
function Found({ text, all, rows }: PageProps & { readonly text: string }) {
  const app = useApp()
  const leadTo = useWindow((state) => state.leadTo)
  const found = all.filter((setting) => isFound(text, settingWords.searched(setting)))
  const parts = settingParts.filter(
    (part) => (app !== undefined || pageOfId(part, all) !== 'General') && isFound(text, settingWords.parts[part]),
  )
  return (
    <div role="group" className={styles['page']} aria-label={settingWords.search}>
      <h3 className={styles['name']}>
        <span role="status">{settingWords.found(found.length + parts.length)}</span>
      </h3>
      {settingSections.map((page) => {
        const settings = found.filter((setting) => pageOf(setting) === page)
        const here = parts.filter((part) => pageOfId(part, all) === page)
        return settings.length + here.length === 0 ? null : (
          <Group key={page} title={settingWords.pages[page]}>
            {here.map((part) => (
              <div key={part} className={styles['part']}>
                <Button look="link" onPress={() => leadTo(part)}>
                  {settingWords.parts[part][0]}
                </Button>
              </div>
            ))}
            {rows(settings)}
          </Group>
        )
      })}
    </div>
  )
}

function Group({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div role="group" className={styles['group']} aria-label={title}>
      <h4 className={styles['name']}>{title}</h4>
      <div className={styles['fields']}>{children}</div>
    </div>
  )
}

interface RowsProps {
  readonly settings: readonly AnySetting[]
  /** All that can be changed, since one may depend on another. */
  readonly views: readonly SettingView[]
  readonly changed: Draft
  readonly startFile: string | undefined
  /** Name of the setting that a person was just led to. */
  readonly led: string | undefined
}

function Rows({ settings, views, changed, startFile, led }: RowsProps) {
  const isPending = useWindow(({ requests }) => requests[about]?.state === 'pending')
  const write = useWindow((state) => state.write)
  const problems = problemsIn(changed)
  const hasBytes = views.some((view) => view.name === 'memoryBudgetBytes' && textIn(changed, view) !== '')
  const scaleOf = (text: string, onChange: (text: string) => void) => (
    <MemorySlider
      fraction={Number(text) || 0}
      isOverruled={hasBytes}
      onChange={(fraction) => onChange(String(Number(fraction.toFixed(2))))}
    />
  )
  return settings.map((view) =>
    isOfStart(view) ? (
      <StartSetting key={view.name} view={view} startFile={startFile} isFound={view.name === led} />
    ) : (
      <SettingField
        key={view.name}
        view={view}
        written={changed[view.name]}
        isFound={view.name === led}
        isPending={isPending}
        problem={problems.includes(view.name) ? settingWords.problem(view.name) : undefined}
        {...(view.name === 'memoryFraction' && { scale: scaleOf })}
        onChange={(text) => write((before) => withWritten(before, view, text))}
      />
    ),
  )
}

/** How many changes there are, with a link to each page that has one, or to each value that cannot be applied. */
function ApplyBar({ changed }: { readonly changed: Draft }) {
  const request = useWindow(({ requests }) => requests[about])
  const connected = useWindow(({ connection }) => connection.state === 'live')
  const draft = useWindow((state) => state.draft)
  const ask = useWindow((state) => state.ask)
  const write = useWindow((state) => state.write)
  const leadTo = useWindow((state) => state.leadTo)
  const result = patchOfDraft(changed)
  const problems = problemsIn(changed)
  const names = settingNames.filter((name) => changed[name] !== undefined)
  const pages = Map.groupBy(names, (name) => pageOf({ name }))
  const apply = async () => {
    if (!result.ok) return
    if (!(await ask(about, { name: 'updateSettings', settings: result.patch }))) return
    write((now) => withoutSent(now, draft))
  }
  const links =
    problems.length > 0
      ? problems.map((name) => ({ name, label: settingWords.titleOf(name) }))
      : [...pages].map(([page, [name]]) => ({ name, label: settingWords.pages[page] }))
  return (
    <div className={styles['apply']}>
      <Answer about={about} />
      <div className={styles['buttons']}>
        <div className={styles['changes']}>
          <span role="status">{settingWords.changes(names.length, problems.length)}</span>
          {links.map(
            ({ name, label }) =>
              name !== undefined && (
                <Button key={name} look="link" label={settingWords.show(label)} onPress={() => leadTo(name)}>
                  {label}
                </Button>
              ),
          )}
        </div>
        <Button disabled={names.length === 0} onPress={() => write(() => ({}))}>
          {settingWords.revert}
        </Button>
        <Button
          look="prominent"
          disabled={names.length === 0 || !result.ok || !connected}
          pending={request?.state === 'pending'}
          onPress={() => void apply()}
        >
          {settingWords.apply}
        </Button>
      </div>
    </div>
  )
}

interface MemorySliderProps {
  /** Fraction of all memory that models may take; 0 = automatic. */
  readonly fraction: number
  /** A number of bytes is set, which takes precedence. */
  readonly isOverruled: boolean
  readonly onChange: (fraction: number) => void
}

/** What is less makes no sense, and 0 would mean automatic. */
const least = 0.01

/** How much of this machine's memory models may hold; nothing while its size is not known. */
function MemorySlider({ fraction, isOverruled, onChange }: MemorySliderProps) {
  const total = useSnapshot(({ memory }) => memory?.totalBytes)
  const budget = useSnapshot(({ memory }) => memory?.budgetBytes)
  const gpuLimit = useSnapshot(({ memory }) => memory?.gpuLimitBytes)
  if (total === undefined) return null
  const value = Math.max(least, Math.min(1, fraction > 0 ? fraction : (budget ?? 0) / total))
  return (
    <Slider
      className={classNames(styles['slider'])}
      value={value}
      onChange={onChange}
      minValue={least}
      maxValue={1}
      step={0.01}
      formatOptions={{ style: 'percent' }}
      isDisabled={isOverruled}
    >
      <div className={styles['first']}>
        <Label className={classNames(styles['label'])}>{budgetWords.slider}</Label>
        <SliderOutput className={classNames(styles['memorySliderValue'])}>
          {budgetWords.share(value, total)}
        </SliderOutput>
      </div>
      <SliderTrack className={classNames(styles['track'])}>
        <span className={styles['filled']} style={{ width: `${100 * value}%` }} />
        {gpuLimit !== undefined && gpuLimit < total && (
          <span className={styles['gpuLimit']} style={{ insetInlineStart: `${(100 * gpuLimit) / total}%` }} />
        )}
        <SliderThumb className={classNames(styles['thumb'])} />
      </SliderTrack>
      <ul className={styles['legend']}>
        {gpuLimit !== undefined && (
          <li>
            <span className={classNames(styles['key'], styles['gpuLimitKey'])} />
            {budgetWords.gpuLimit(gpuLimit)}
          </li>
        )}
        <li>
          <span className={classNames(styles['key'], styles['ramKey'])} />
          {budgetWords.ram(total)}
        </li>
      </ul>
      {isOverruled && <p className={styles['memorySliderNote']}>{budgetWords.bytesCount}</p>}
    </Slider>
  )
}
