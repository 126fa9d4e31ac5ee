// The blocks that pages are made of, by their plain data.
export { MatrixView } from "./matrix";
export { PlotView } from "./plot";
export { Sections, drawAll } from "./section";
export { TableView } from "./table";
